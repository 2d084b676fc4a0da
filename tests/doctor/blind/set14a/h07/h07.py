"""Patch transformer without attention (MLP-mixer), trained in two runs: the second resumes the first."""
import random

import torch
import torch.nn as nn

from trainer import Trainer


class MixerBlock(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.t = nn.Sequential(nn.Linear(n, 2 * n), nn.GELU(), nn.Linear(2 * n, n))
        self.c = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x):
        x = x + self.t(self.n1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.c(self.n2(x))


class StochasticDepth(nn.Module):
    def __init__(self, blocks, p=0.2):
        super().__init__()
        self.blocks, self.p = nn.ModuleList(blocks), p

    def forward(self, x):
        for b in self.blocks:
            if not self.training or random.random() >= self.p:
                x = b(x)
        return x


class Mixer(nn.Module):
    def __init__(self, d=32, classes=4, depth=3):
        super().__init__()
        self.embed = nn.Conv2d(1, d, 4, 4)
        self.blocks = StochasticDepth([MixerBlock(16, d) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, classes)
        self.distill_head = nn.Linear(d, classes)

    def forward(self, x):
        h = self.blocks(self.embed(x).flatten(2).transpose(1, 2))
        return self.head(self.norm(h).mean(1))


def batches(count, n=24):
    out = []
    for _ in range(count):
        y = torch.randint(0, 4, (n,))
        g = torch.arange(16.0)
        f = (0.4 + 0.4 * (y % 2).float())[:, None]
        w = torch.sin(f * g + 6.28 * torch.rand(n, 1))[:, None].expand(n, 16, 16)
        x = torch.where((y < 2)[:, None, None], w, w.transpose(1, 2))[:, None]
        out.append((x + 0.5 * torch.randn_like(x), y))
    return out


def main():
    torch.manual_seed(33)
    random.seed(33)
    val = batches(6)
    first = Trainer(Mixer())
    first.fit(lambda: batches(16), val, epochs=4)
    second = Trainer(Mixer(), init_scale=2.0 ** 16)
    second.resume(first.path)
    second.fit(lambda: batches(16), val, epochs=16)


if __name__ == "__main__":
    main()
