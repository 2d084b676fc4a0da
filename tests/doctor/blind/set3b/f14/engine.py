import math

import torch


class Step:
    """Forward, backward and update of one batch; keeps an exponential average of the weights."""

    def __init__(self, model, criterion, optimizer, decay=0.9):
        self.model, self.criterion, self.optimizer = model, criterion, optimizer
        self.scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
        self.decay, self.smooth = decay, None
        self.average = {k: v.detach().clone() for k, v in model.state_dict().items()}

    def tidy(self):
        for p in self.model.parameters():
            if p.grad is not None:
                torch.nan_to_num_(p.grad, nan=0.0, posinf=0.0, neginf=0.0)

    def __call__(self, left, right):
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = self.criterion(self.model(left), self.model(right))
        self.scaler.scale(loss).backward()
        self.tidy()
        self.scaler.unscale_(self.optimizer)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        with torch.no_grad():
            for k, v in self.model.state_dict().items():
                self.average[k].lerp_(v, 1.0 - self.decay)
        value = loss.item()
        if math.isfinite(value):
            self.smooth = value if self.smooth is None else 0.8 * self.smooth + 0.2 * value
        return self.smooth
