"""Fit a smooth intensity field to binned counts of spots on a tissue section (Poisson likelihood)."""
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Config:
    extent: float = 1600.0
    hidden: int = 48
    genes: int = 6
    lr: float = 5e-7
    momentum: float = 0.8
    steps: int = 60
    schedule: tuple = ((0, 64), (20, 256), (35, 1536))
    seed: int = 4


class Field(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.lift = nn.Linear(2, cfg.hidden)
        self.mid = nn.Linear(cfg.hidden, cfg.hidden)
        self.out = nn.Linear(cfg.hidden, cfg.genes)
        with torch.no_grad():
            self.lift.weight.normal_(0, 0.005)
            self.lift.bias.uniform_(-math.pi, math.pi)
            self.out.weight.mul_(0.3)
            self.out.bias.fill_(1.5)

    def forward(self, xy):
        h = self.lift(xy)
        h = torch.sin(h)
        h = F.silu(self.mid(h))
        return self.out(h)


class Section:
    """Bins of the section, drawn at random; `rate` is the truth."""

    def __init__(self, cfg):
        self.cfg = cfg
        self.g = torch.Generator().manual_seed(cfg.seed)
        self.centres = torch.rand(cfg.genes, 2, generator=self.g) * cfg.extent

    def rate(self, xy):
        d = torch.cdist(xy, self.centres) / (0.25 * self.cfg.extent)
        return 3.0 + 80.0 * torch.exp(-d * d)

    def draw(self, n):
        xy = torch.rand(n, 2, generator=self.g) * self.cfg.extent
        return xy, torch.poisson(self.rate(xy), generator=self.g)


def bins_at(step, schedule):
    size = schedule[0][1]
    for start, n in schedule:
        if step >= start:
            size = n
    return size


def fit(cfg):
    torch.manual_seed(cfg.seed)
    field, section = Field(cfg), Section(cfg)
    opt = torch.optim.SGD(field.parameters(), lr=cfg.lr, momentum=cfg.momentum)
    history = []
    for step in range(cfg.steps):
        n = bins_at(step, cfg.schedule)
        xy, counts = section.draw(n)
        with torch.autocast("cpu", dtype=torch.float16):
            log_rate = field(xy)
        nll = F.poisson_nll_loss(log_rate.float(), counts, log_input=True, reduction="sum")
        opt.zero_grad()
        nll.backward()
        opt.step()
        history.append(nll.item() / n)
        if step % 6 == 0:
            print(f"{step:3d} bins {n:5d} nll/bin {history[-1]:.3f}")
    return field, section, history


@torch.no_grad()
def report(field, section):
    xy, counts = section.draw(500)
    rel = (field(xy).exp() - section.rate(xy)).abs() / section.rate(xy)
    print(f"mean relative error of the rate: {rel.mean().item():.3f}")


if __name__ == "__main__":
    cfg = Config()
    field, section, history = fit(cfg)
    report(field, section)
