"""Air-quality interpolation: predict the reading of every station from its
neighbours with graph attention limited to stations within a radius."""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    n_cities: int = 40
    stations: int = 20
    radius: float = 0.35
    width: int = 32
    heads: int = 4
    steps: int = 60
    batch: int = 8
    lr: float = 2e-3


def make_city(cfg, g):
    spread = 0.3 + 0.7 * torch.rand(1, generator=g)
    xy = torch.rand(cfg.stations, 2, generator=g) * spread
    if torch.rand(1, generator=g) < 0.08:
        xy[-1] = torch.tensor([2.5, 2.5])
    field = torch.sin(4 * xy[:, 0]) + torch.cos(3 * xy[:, 1])
    field = field + 0.05 * torch.randn(cfg.stations, generator=g)
    return xy, field


def neighbourhood(xy, radius):
    dist = torch.cdist(xy, xy)
    return (dist < radius) & (dist > 0)


class RadiusAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, h, near):
        b, n, d = h.shape
        q, k, v = self.qkv(h).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        att = q @ k.transpose(-1, -2) / math.sqrt(d // self.heads)
        att = att.masked_fill(~near[:, None], float("-inf"))
        out = att.softmax(-1) @ v
        return self.proj(out.transpose(1, 2).reshape(b, n, d))


class Interpolator(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.value = nn.Linear(1, cfg.width)
        self.place = nn.Linear(2, cfg.width)
        self.att = nn.ModuleList(RadiusAttention(cfg.width, cfg.heads) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(cfg.width) for _ in range(2))
        self.out = nn.Sequential(nn.Linear(cfg.width, cfg.width), nn.GELU(), nn.Linear(cfg.width, 1))

    def forward(self, xy, seen, near):
        h = self.value(seen[..., None]) + self.place(xy)
        for att, norm in zip(self.att, self.norms):
            h = h + att(norm(h), near)
        return self.out(h).squeeze(-1)


def main(cfg=Config()):
    torch.manual_seed(5)
    g = torch.Generator().manual_seed(9)
    cities = [make_city(cfg, g) for _ in range(cfg.n_cities)]
    xy = torch.stack([c[0] for c in cities])
    truth = torch.stack([c[1] for c in cities])
    near = torch.stack([neighbourhood(c[0], cfg.radius) for c in cities])
    model = Interpolator(cfg)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr)
    for step in range(cfg.steps):
        pick = torch.randint(0, cfg.n_cities, (cfg.batch,))
        hide = torch.rand(cfg.batch, cfg.stations) < 0.3
        seen = truth[pick].masked_fill(hide, 0.0)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            pred = model(xy[pick], seen, near[pick])
            loss = F.mse_loss(pred[hide].float(), truth[pick][hide])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 10 == 0:
            print(f"step {step:3d} mse {loss.item():.4f}")


main()
