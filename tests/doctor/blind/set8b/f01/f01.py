"""Load forecasting from sensor windows."""
import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

from layers import Block


class Windows(Dataset):
    def __init__(self, n, width, seed):
        g = torch.Generator().manual_seed(seed)
        t = torch.rand(n, 1, generator=g) * 6.28
        grid = torch.linspace(0, 4, width)[None]
        freq = torch.randint(1, 4, (n, 1), generator=g).float()
        self.x = 6.0 * torch.sin(freq * grid + t) + 0.1 * torch.randn(n, width, generator=g)
        self.y = 6.0 * torch.sin(freq * 4.5 + t)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class Forecaster(nn.Module):
    def __init__(self, width, dim, depth, dtype):
        super().__init__()
        self.inp = nn.Linear(width, dim)
        self.blocks = nn.ModuleList(Block(dim, dtype) for _ in range(depth))
        self.out = nn.Linear(dim, 1)

    def forward(self, x):
        h = self.inp(x)
        for b in self.blocks:
            h = b(h)
        return self.out(h)


class Trainer:
    def __init__(self, args):
        self.args = args
        self.dtype = torch.float16
        self.model = Forecaster(args.width, args.dim, args.depth, self.dtype)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=args.lr)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 12, growth_interval=500)
        self.loss_fn = nn.SmoothL1Loss()

    def train_epoch(self, loader):
        self.model.train()
        total, count = 0.0, 0
        for x, y in loader:
            self.opt.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=self.dtype):
                loss = self.loss_fn(self.model(x), y)
            self.scaler.scale(loss).backward()
            self.scaler.unscale_(self.opt)
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.scaler.step(self.opt)
            self.scaler.update()
            total += loss.item() * len(x)
            count += len(x)
        return total / count

    @torch.no_grad()
    def validate(self, loader):
        self.model.eval()
        err, count = 0.0, 0
        for x, y in loader:
            with torch.autocast("cpu", dtype=self.dtype):
                pred = self.model(x)
            err += (pred.float() - y).abs().sum().item()
            count += len(x)
        return err / count

    def fit(self, train, val):
        for epoch in range(self.args.epochs):
            tr = self.train_epoch(train)
            print(f"epoch {epoch:02d} train {tr:.4f} mae {self.validate(val):.4f} scale {self.scaler.get_scale():.0f}")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=6)
    p.add_argument("--batch-size", type=int, default=64)
    p.add_argument("--width", type=int, default=48)
    p.add_argument("--dim", type=int, default=64)
    p.add_argument("--depth", type=int, default=3)
    p.add_argument("--lr", type=float, default=2e-3)
    args = p.parse_args()
    torch.manual_seed(0)
    train = DataLoader(Windows(4096, args.width, 1), args.batch_size, shuffle=True, drop_last=True)
    val = DataLoader(Windows(512, args.width, 2), 128)
    Trainer(args).fit(train, val)


if __name__ == "__main__":
    main()
