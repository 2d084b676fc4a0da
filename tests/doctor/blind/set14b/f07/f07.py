import math
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class Config:
    window: int = 48
    horizon: int = 12
    channels: int = 16
    batch: int = 24
    steps: int = 800
    lr: float = 0.05
    warmup: int = 25
    log_every: int = 50


def series(n, g):
    t = torch.arange(n, dtype=torch.float32)
    base = torch.sin(2 * math.pi * t / 24) + 0.5 * torch.sin(2 * math.pi * t / 168 + 1.0)
    return base + 0.1 * torch.randn(n, generator=g)


class TCN(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        layers, width = [], 1
        for d in (1, 2, 4):
            layers += [nn.Conv1d(width, cfg.channels, 3, dilation=d, padding=d), nn.ReLU()]
            width = cfg.channels
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(width * cfg.window, cfg.horizon)

    def forward(self, x):
        return self.head(self.body(x.unsqueeze(1)).flatten(1))


def lr_factor(cfg):
    def factor(step):
        return (step + 1) / cfg.warmup
    return factor


class Forecaster:
    def __init__(self, cfg):
        self.cfg = cfg
        self.g = torch.Generator().manual_seed(21)
        self.train = series(3000, self.g)
        self.valid = series(600, self.g)
        self.model = TCN(cfg)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=cfg.lr, momentum=0.9, weight_decay=1e-4)
        self.sched = torch.optim.lr_scheduler.LambdaLR(self.opt, lr_factor(cfg))

    def batch(self, source):
        span = self.cfg.window + self.cfg.horizon
        start = torch.randint(len(source) - span, (self.cfg.batch,), generator=self.g)
        rows = source[start[:, None] + torch.arange(span)]
        return rows[:, :self.cfg.window], rows[:, self.cfg.window:]

    @torch.no_grad()
    def validate(self):
        x, y = self.batch(self.valid)
        return nn.functional.l1_loss(self.model(x), y).item()

    def run(self):
        for step in range(self.cfg.steps):
            x, y = self.batch(self.train)
            loss = nn.functional.mse_loss(self.model(x), y)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.sched.step()
            if step % self.cfg.log_every == 0 or step == self.cfg.steps - 1:
                print(f"step {step:5d} mse {loss.item():.4f} valid mae {self.validate():.4f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    Forecaster(Config()).run()
