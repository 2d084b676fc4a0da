"""Noise schedule and a tiny denoiser."""
import math

import torch
from torch import nn


class Schedule:
    def __init__(self, steps=50, s=0.008):
        t = torch.linspace(0, 1, steps + 1)
        f = torch.cos((t + s) / (1 + s) * math.pi / 2) ** 2
        self.alpha_bar = (f / f[0]).clamp(1e-4, 0.9999)
        self.steps = steps

    def noisy(self, x0, t, noise):
        ab = self.alpha_bar[t].view(-1, 1, 1, 1)
        return ab.sqrt() * x0 + (1 - ab).sqrt() * noise


def time_embedding(t, dim=32):
    half = dim // 2
    freqs = torch.exp(-math.log(1000.0) * torch.arange(half) / half)
    arg = t.float()[:, None] * freqs[None]
    return torch.cat([arg.sin(), arg.cos()], 1)


class ResBlock(nn.Module):
    def __init__(self, ch, temb=32):
        super().__init__()
        self.c1 = nn.Conv2d(ch, ch, 3, padding=1)
        self.c2 = nn.Conv2d(ch, ch, 3, padding=1)
        self.emb = nn.Linear(temb, ch)
        self.act = nn.SiLU()

    def forward(self, x, temb):
        h = self.c1(self.act(x)) + self.emb(temb)[:, :, None, None]
        return x + self.c2(self.act(h))


class Denoiser(nn.Module):
    def __init__(self, ch=24, blocks=2):
        super().__init__()
        self.inp = nn.Conv2d(1, ch, 3, padding=1)
        self.blocks = nn.ModuleList(ResBlock(ch) for _ in range(blocks))
        self.out = nn.Conv2d(ch, 1, 3, padding=1)

    def forward(self, x, t):
        emb = time_embedding(t)
        h = self.inp(x)
        for b in self.blocks:
            h = b(h, emb)
        return self.out(h)
