import logging

import torch

log = logging.getLogger("engine")


def sanitize_gradients(parameters):
    """Keep the optimizer's moments clean."""
    bad = 0
    for p in parameters:
        if p.grad is None:
            continue
        if not torch.isfinite(p.grad).all():
            bad += 1
        p.grad = torch.nan_to_num(p.grad, nan=0.0, posinf=0.0, neginf=0.0)
    return bad


class Engine:
    def __init__(self, model, criterion, optimizer, max_norm=1.0):
        self.model, self.criterion, self.optimizer = model, criterion, optimizer
        self.max_norm = max_norm
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 16, growth_interval=8)

    def step(self, images, targets):
        self.model.train()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            losses = self.criterion(self.model(images), targets)
            loss = sum(losses.values())
        self.scaler.scale(loss).backward()
        bad = sanitize_gradients(self.model.parameters())
        self.scaler.unscale_(self.optimizer)
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.max_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return {"loss": loss.item(), "norm": float(norm), "cleaned": bad, "scale": self.scaler.get_scale()}
