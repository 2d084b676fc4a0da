"""Crowd counting on synthetic density maps."""
import argparse
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from model import CounterNet


class CrowdScenes(Dataset):
    def __init__(self, n, size=24, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.images = torch.rand(n, 3, size, size, generator=g) * 0.2
        self.maps = torch.zeros(n, 1, size, size)
        rng = random.Random(seed)
        for i in range(n):
            for _ in range(rng.randint(4, 14)):
                r, c = rng.randrange(1, size - 1), rng.randrange(1, size - 1)
                self.images[i, :, r - 1:r + 2, c - 1:c + 2] += 0.6
                self.maps[i, 0, r - 1:r + 2, c - 1:c + 2] += 6.0

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i], self.maps[i]


class Trainer:
    def __init__(self, args):
        torch.manual_seed(args.seed)
        self.args = args
        self.net = CounterNet(width=args.width)
        self.opt = torch.optim.Adam(self.net.parameters(), lr=args.lr)
        self.sched = torch.optim.lr_scheduler.StepLR(self.opt, 4, gamma=0.5)
        self.scaler = torch.amp.GradScaler("cpu")
        self.criterion = nn.MSELoss(reduction="sum")
        self.train_dl = DataLoader(CrowdScenes(128), batch_size=args.batch, shuffle=True)
        self.val_dl = DataLoader(CrowdScenes(32, seed=9), batch_size=args.batch)

    def fit_epoch(self):
        self.net.train()
        total = 0.0
        for image, density in self.train_dl:
            self.opt.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.float16):
                pred = self.net(image)
                loss = self.criterion(pred, density) / len(image)
            self.scaler.scale(loss).backward()
            self.scaler.unscale_(self.opt)
            nn.utils.clip_grad_norm_(self.net.parameters(), self.args.clip)
            self.scaler.step(self.opt)
            self.scaler.update()
            total += loss.item()
        self.sched.step()
        return total / len(self.train_dl.dataset)

    @torch.no_grad()
    def mae(self):
        self.net.eval()
        err = 0.0
        for image, density in self.val_dl:
            pred = self.net(image).sum((1, 2, 3)) / 54
            err += (pred - density.sum((1, 2, 3)) / 54).abs().sum().item()
        return err / len(self.val_dl.dataset)

    def run(self):
        for epoch in range(self.args.epochs):
            loss = self.fit_epoch()
            print(f"epoch {epoch}: loss {loss:.1f}  mae {self.mae():.3f}  scale {self.scaler.get_scale():.0f}")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=5)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--width", type=int, default=16)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--clip", type=float, default=50.0)
    p.add_argument("--seed", type=int, default=1)
    Trainer(p.parse_args()).run()
