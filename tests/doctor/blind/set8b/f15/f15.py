"""Normaliser-free net that tells which of two patches is rotated."""
import argparse
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

from agc import limit_


@dataclass
class Config:
    epochs: int = 6
    batch: int = 32
    lr: float = 0.1
    ratio: float = 0.05
    width: int = 16
    size: int = 16


class Shapes(Dataset):
    def __init__(self, n, size, seed):
        g = torch.Generator().manual_seed(seed)
        self.y = torch.randint(4, (n,), generator=g)
        base = torch.zeros(n, size, size)
        for i in range(n):
            r, c = torch.randint(1, size // 2 - 2, (2,), generator=g).tolist()
            base[i, r:r + 6, c:c + 2] = 1
            base[i, r + 4:r + 6, c:c + 6] = 1
            base[i] = torch.rot90(base[i], int(self.y[i]))
        self.x = base[:, None] + 0.3 * torch.randn(n, 1, size, size, generator=g)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class NFNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.stem = nn.Conv2d(1, width, 3, padding=1)
        self.a = nn.Conv2d(width, width * 2, 3, stride=2, padding=1)
        self.b = nn.Conv2d(width * 2, width * 2, 3, stride=2, padding=1)
        self.gain = nn.Parameter(torch.ones(3))
        self.fc = nn.Linear(width * 2 * 16, 4)

    def forward(self, x):
        h = F.gelu(self.stem(x)) * self.gain[0]
        h = F.gelu(self.a(h)) * self.gain[1]
        h = F.gelu(self.b(h)) * self.gain[2]
        return self.fc(h.flatten(1))


class Experiment:
    def __init__(self, cfg):
        torch.manual_seed(0)
        self.cfg = cfg
        self.net = NFNet(cfg.width)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=cfg.lr, momentum=0.9, nesterov=True)
        self.scaler = torch.amp.GradScaler("cpu")
        self.train = DataLoader(Shapes(768, cfg.size, 1), cfg.batch, shuffle=True)
        self.test = DataLoader(Shapes(256, cfg.size, 2), 128)

    def update(self, x, y):
        self.opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.cross_entropy(self.net(x), y)
        self.scaler.scale(loss).backward()
        body = [p for n, p in self.net.named_parameters() if not n.startswith("fc")]
        limit_(body, self.cfg.ratio)
        limit_(self.net.fc.parameters(), self.cfg.ratio)
        self.scaler.step(self.opt)
        self.scaler.update()
        return loss.item()

    @torch.no_grad()
    def accuracy(self):
        self.net.eval()
        hit = sum((self.net(x).argmax(1) == y).sum().item() for x, y in self.test)
        self.net.train()
        return hit / len(self.test.dataset)

    def run(self):
        for epoch in range(self.cfg.epochs):
            losses = [self.update(x, y) for x, y in self.train]
            print(f"epoch {epoch} loss {sum(losses) / len(losses):.4f} acc {self.accuracy():.3f}")


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    for name, value in vars(Config()).items():
        ap.add_argument(f"--{name}", type=type(value), default=value)
    Experiment(Config(**vars(ap.parse_args()))).run()
