import math
from dataclasses import dataclass

import torch
import torch.nn as nn

from precision import Precision


@dataclass
class Config:
    precision: str = "16-mixed"
    traces: int = 240
    unit: float = 4e-3
    samples: int = 512
    batch: int = 32
    epochs: int = 8
    lr: float = 5e-3


def seismograms(cfg, g):
    """Ground displacement in metres: a few wavelets per trace, plus the pre-amplified recording of it."""
    t = torch.arange(cfg.samples) / 100.0
    clean = torch.zeros(cfg.traces, cfg.samples)
    for _ in range(4):
        centre = t[-1] * torch.rand(cfg.traces, 1, generator=g)
        f = 2 + 6 * torch.rand(cfg.traces, 1, generator=g)
        a = (math.pi * f * (t - centre)) ** 2
        clean += torch.randn(cfg.traces, 1, generator=g) * (1 - 2 * a) * torch.exp(-a)
    noisy = clean + 0.5 * torch.randn(cfg.traces, cfg.samples, generator=g)
    return noisy, cfg.unit * clean


class Denoiser(nn.Module):
    def __init__(self, unit, width=12):
        super().__init__()
        self.unit = unit
        self.net = nn.Sequential(
            nn.Conv1d(1, width, 9, padding=4), nn.GELU(),
            nn.Conv1d(width, width, 9, padding=8, dilation=2), nn.GELU(),
            nn.Conv1d(width, 1, 9, padding=4))

    def forward(self, x):
        return self.unit * self.net(x.unsqueeze(1)).squeeze(1)


def main(cfg=Config()):
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(13)
    noisy, clean = seismograms(cfg, g)
    cut = int(0.8 * cfg.traces)
    model = Denoiser(cfg.unit)
    precision = Precision(cfg.precision)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr)
    print(f"precision {precision.mode}, {sum(p.numel() for p in model.parameters())} parameters")
    for epoch in range(cfg.epochs):
        total = 0.0
        for idx in torch.randperm(cut).split(cfg.batch):
            with precision.context():
                out = model(noisy[idx])
                loss = nn.functional.mse_loss(out, clean[idx])
            opt.zero_grad()
            precision.backward(loss)
            precision.step(opt)
            total += loss.item() * len(idx)
        with torch.no_grad(), precision.context():
            resid = model(noisy[cut:]).float() - clean[cut:]
        explained = 1 - resid.square().mean() / clean[cut:].square().mean()
        print(f"epoch {epoch:2d} rmse {math.sqrt(total / cut):.3e} m, explained variance {explained:.3f}")


if __name__ == "__main__":
    main()
