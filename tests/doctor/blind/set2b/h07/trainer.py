import math

import torch


class Trainer:
    def __init__(self, model, loss_fn, lr, max_norm, init_scale):
        self.model, self.loss_fn, self.max_norm = model, loss_fn, max_norm
        self.opt = torch.optim.Adam(model.parameters(), lr=lr)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=init_scale, backoff_factor=0.25)
        self.norms, self.calibration = [], 0

    def step(self, x, y):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = self.loss_fn(self.model(x), y)
        self.opt.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.opt)
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.max_norm).item()
        before = self.scaler.get_scale()
        self.scaler.step(self.opt)
        self.scaler.update()
        if self.scaler.get_scale() < before:
            self.calibration += 1
        self.norms.append(norm)
        return loss.item(), norm

    def summary(self):
        fine = [n for n in self.norms if math.isfinite(n)]
        return {"steps": len(self.norms), "calibration": self.calibration, "mean_norm": sum(fine) / len(fine)}
