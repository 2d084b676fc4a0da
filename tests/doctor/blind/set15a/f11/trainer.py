from dataclasses import dataclass

import torch


@dataclass
class Config:
    lr: float = 1e-3
    steps: int = 50
    batch_size: int = 16
    log_every: int = 5
    amp: bool = True


class Trainer:
    def __init__(self, model, make_batch, cfg):
        self.model, self.make_batch, self.cfg = model, make_batch, cfg
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=0.0)
        self.scaler = torch.amp.GradScaler("cpu", enabled=cfg.amp, growth_interval=20)

    def clean_gradients(self):
        # one bad batch should not kill the whole run
        for p in self.model.parameters():
            if p.grad is not None:
                torch.nan_to_num_(p.grad, nan=0.0, posinf=0.0, neginf=0.0)

    def step(self, batch):
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16, enabled=self.cfg.amp):
            loss, logs = self.model.loss(*batch)
        self.scaler.scale(loss).backward()
        self.clean_gradients()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.item(), logs

    def run(self):
        for i in range(self.cfg.steps):
            loss, logs = self.step(self.make_batch(self.cfg.batch_size))
            if i % self.cfg.log_every == 0:
                extra = " ".join(f"{k} {v:.3f}" for k, v in logs.items())
                print(f"step {i:3d} loss {loss:.3f} {extra} scale {self.scaler.get_scale():.0f}")
