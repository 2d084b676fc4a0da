import math

import torch
from torch import nn
from torch.utils.data import Dataset


class SpiralPoints(Dataset):
    def __init__(self, n, seed=4):
        gen = torch.Generator().manual_seed(seed)
        theta = 3 * math.pi * torch.rand(n, generator=gen).sqrt()
        r = theta / (3 * math.pi)
        pts = torch.stack([r * theta.cos(), r * theta.sin()], dim=1)
        self.pts = 1.5 * pts + 0.02 * torch.randn(n, 2, generator=gen)

    def __len__(self):
        return len(self.pts)

    def __getitem__(self, i):
        return self.pts[i]


class GaussianDiffusion:
    def __init__(self, steps):
        self.steps = steps
        betas = torch.linspace(1e-3, 0.08, steps)
        self.alpha_bar = torch.cumprod(1 - betas, dim=0)

    def q_sample(self, x0, t, noise):
        a = self.alpha_bar[t].unsqueeze(1)
        return a.sqrt() * x0 + (1 - a).sqrt() * noise


class Denoiser(nn.Module):
    def __init__(self, width, bands=8):
        super().__init__()
        self.register_buffer("freq", 2.0 ** torch.arange(bands // 2))
        self.inp = nn.Linear(2 + bands, width)
        self.mid = nn.ModuleList(nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, 2)

    def forward(self, x, t):
        phase = t.unsqueeze(1) * self.freq * math.pi
        h = torch.nn.functional.silu(self.inp(torch.cat([x, phase.sin(), phase.cos()], dim=1)))
        for layer in self.mid:
            h = h + torch.nn.functional.silu(layer(h))
        return self.out(h)
