import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


class Tower(nn.Module):
    def __init__(self, i, h=64, o=24, depth=3):
        super().__init__()
        self.stem = nn.Linear(i, h)
        self.blocks = nn.ModuleList([nn.Sequential(nn.LayerNorm(h), nn.Linear(h, 2 * h), nn.GELU(), nn.Linear(2 * h, h)) for _ in range(depth)])
        self.out = nn.Linear(h, o)

    def forward(self, x):
        x = self.stem(x)
        for b in self.blocks:
            x = x + checkpoint(b, x, use_reentrant=False)
        return F.normalize(self.out(x).float(), dim=-1)


class DualEncoder(nn.Module):
    def __init__(self, a=32, b=48):
        super().__init__()
        self.a, self.b = Tower(a), Tower(b)
        self.logit_scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def forward(self, xa, xb):
        s = self.logit_scale.exp().clamp(max=100)
        return self.a(xa), self.b(xb), s


def pair_loss(za, zb, scale):
    logits = scale * za @ zb.t()
    y = torch.arange(len(za))
    return 0.5 * (F.cross_entropy(logits.float(), y) + F.cross_entropy(logits.t().float(), y))


def ntxent(z1, z2, scale):
    z = torch.cat([z1, z2])
    sim = (scale * z @ z.t()).float()
    sim = sim.masked_fill(torch.eye(len(z), dtype=torch.bool), float("-inf"))
    n = len(z1)
    y = torch.cat([torch.arange(n) + n, torch.arange(n)])
    return F.cross_entropy(sim, y)
