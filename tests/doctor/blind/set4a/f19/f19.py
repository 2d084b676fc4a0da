"""Contrastive pretraining of a signal encoder with a small trainer (SimCLR style)."""
import time
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class TrainConfig:
    steps: int = 40
    batch: int = 48
    lr: float = 2e-3
    precision: str = "bf16"
    seed: int = 0


class Signals:
    def __init__(self, seed, length=64):
        self.g = torch.Generator().manual_seed(seed)
        self.t = torch.linspace(0, 6.28, length)

    def view(self, freq, phase):
        shift = 0.4 * torch.randn(freq.shape, generator=self.g)
        x = torch.sin(freq * self.t + phase + shift)
        return (x + 0.2 * torch.randn(x.shape, generator=self.g))[:, None]

    def pair(self, n):
        freq = torch.empty(n, 1).uniform_(1, 9, generator=self.g)
        phase = torch.empty(n, 1).uniform_(0, 6.28, generator=self.g)
        return self.view(freq, phase), self.view(freq, phase)


class Encoder(nn.Module):
    def __init__(self, width=32, out=24):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(1, width, 7, stride=2, padding=3), nn.GELU(),
            nn.Conv1d(width, width, 5, stride=2, padding=2), nn.GELU(),
            nn.Conv1d(width, width, 3, stride=2, padding=1), nn.GELU(),
        )
        self.proj = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, out))

    def forward(self, x):
        return F.normalize(self.proj(self.conv(x).mean(-1)), dim=-1)


class NTXent(nn.Module):
    def __init__(self, temperature=0.2):
        super().__init__()
        self.temperature = temperature

    def forward(self, a, b):
        logits = torch.mul(a[:, None], b[None]).sum(-1) / self.temperature
        target = torch.arange(len(a))
        return 0.5 * (F.cross_entropy(logits, target) + F.cross_entropy(logits.t(), target))


class Trainer:
    def __init__(self, cfg):
        torch.manual_seed(cfg.seed)
        self.cfg = cfg
        self.data = Signals(cfg.seed)
        self.encoder = Encoder()
        self.criterion = NTXent()
        self.opt = torch.optim.AdamW(self.encoder.parameters(), lr=cfg.lr)

    def autocast(self):
        return torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.cfg.precision == "bf16")

    def training_step(self, a, b):
        za, zb = self.encoder(a), self.encoder(b)
        with self.autocast():
            loss = self.criterion(za, zb)
        return loss, za.dtype

    def fit(self):
        start = time.time()
        for step in range(self.cfg.steps):
            a, b = self.data.pair(self.cfg.batch)
            loss, dtype = self.training_step(a, b)
            self.opt.zero_grad(set_to_none=True)
            loss.backward()
            self.opt.step()
            if step % 10 == 0:
                print(f"step {step} loss {loss.item():.3f} embeddings {dtype}")
        print(f"{self.cfg.precision}: {(time.time() - start) / self.cfg.steps * 1e3:.1f} ms a step")


if __name__ == "__main__":
    Trainer(TrainConfig()).fit()
