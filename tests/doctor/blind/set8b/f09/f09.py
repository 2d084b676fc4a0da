"""Mixer for small grids: predicts the sum of two marked cells."""
import argparse
import time

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

from loop import Loop


class Marked(Dataset):
    def __init__(self, n, cells, seed):
        g = torch.Generator().manual_seed(seed)
        self.value = torch.rand(n, cells, generator=g)
        mark = torch.zeros(n, cells)
        for row in mark:
            row[torch.randperm(cells, generator=g)[:2]] = 1
        self.mark = mark

    def __len__(self):
        return len(self.value)

    def __getitem__(self, i):
        v, m = self.value[i], self.mark[i]
        return torch.stack([v, m], -1), (v * m).sum()[None]


class MixerBlock(nn.Module):
    def __init__(self, cells, dim):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.tokens = nn.Sequential(nn.Linear(cells, cells * 2), nn.GELU(), nn.Linear(cells * 2, cells))
        self.channels = nn.Sequential(nn.Linear(dim, dim * 2), nn.GELU(), nn.Linear(dim * 2, dim))

    def forward(self, x):
        x = x + self.tokens(self.n1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.n2(x))


class Mixer(nn.Module):
    def __init__(self, cells, dim, depth):
        super().__init__()
        self.embed = nn.Linear(2, dim)
        self.blocks = nn.Sequential(*[MixerBlock(cells, dim) for _ in range(depth)])
        self.head = nn.Linear(dim, 1)

    def forward(self, x):
        return self.head(self.blocks(self.embed(x)).mean(1))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=5)
    p.add_argument("--cells", type=int, default=12)
    p.add_argument("--dim", type=int, default=32)
    p.add_argument("--depth", type=int, default=2)
    p.add_argument("--lr", type=float, default=2e-3)
    args = p.parse_args()
    torch.manual_seed(0)
    model = Mixer(args.cells, args.dim, args.depth)
    train = DataLoader(Marked(2048, args.cells, 1), 64, shuffle=True)
    val = DataLoader(Marked(512, args.cells, 2), 128)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.lr * 2, epochs=args.epochs, steps_per_epoch=1)
    loop = Loop(model, nn.MSELoss(), optimizer, clip=1.0)
    for epoch in range(args.epochs):
        start = time.time()
        loss = loop.train(train)
        sched.step()
        print(f"epoch {epoch}: train {loss:.4f} val {loop.evaluate(val):.4f} steps {loop.steps} {time.time() - start:.1f}s")


if __name__ == "__main__":
    main()
