"""Masked autoencoder pre-training on synthetic images with a small trainer class."""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
from torch.optim.lr_scheduler import LambdaLR, SequentialLR


@dataclass
class TrainConfig:
    dim: int = 48
    lr: float = 0.3
    momentum: float = 0.9
    warmup: int = 15
    total: int = 400
    batch: int = 32
    mask_ratio: float = 0.6


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.token = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
        self.chan = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x):
        x = x + 0.5 * self.token(x.transpose(1, 2)).transpose(1, 2)
        return x + 0.5 * self.chan(x)


class MAE(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.embed = nn.Linear(16, d)
        self.mask_token = nn.Parameter(torch.zeros(d))
        self.pos = nn.Parameter(0.02 * torch.randn(16, d))
        self.blocks = nn.Sequential(Block(d), Block(d))
        self.out = nn.Linear(d, 16)

    def forward(self, patches, mask):
        h = torch.where(mask[..., None], self.mask_token, self.embed(patches)) + self.pos
        return self.out(self.blocks(h))


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.model = MAE(cfg.dim)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=cfg.lr, momentum=cfg.momentum)
        warm = LambdaLR(self.opt, lambda s: (s + 1) / cfg.warmup)
        decay = LambdaLR(self.opt, lambda s: 0.5 * (1 + math.cos(math.pi * s / (cfg.total - cfg.warmup))))
        self.sched = SequentialLR(self.opt, [warm, decay], milestones=[cfg.warmup * len(self.loader())])

    def loader(self):
        return range(25)

    def batch(self):
        yy, xx = torch.meshgrid(torch.arange(16.0), torch.arange(16.0), indexing="ij")
        a, f = torch.rand(self.cfg.batch, 1, 1) * 3.14, torch.rand(self.cfg.batch, 1, 1) * 0.3 + 0.2
        img = torch.sin(f * (a.cos() * xx + a.sin() * yy))
        return img.unfold(1, 4, 4).unfold(2, 4, 4).reshape(-1, 16, 16)

    def step(self):
        x = self.batch()
        mask = torch.rand(x.shape[:2]) < self.cfg.mask_ratio
        pred = self.model(x, mask)
        per = (pred - x).square().mean(-1)
        loss = (per * mask).sum() / mask.sum().clamp(min=1)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.sched.step()
        return loss.item()

    def fit(self):
        done = 0
        while done < self.cfg.total:
            losses = [self.step() for _ in self.loader()]
            done += len(losses)
            if done % 50 == 0:
                print(f"step {done:4d} loss {sum(losses) / len(losses):.5f} lr {self.sched.get_last_lr()[0]:.4f}")


if __name__ == "__main__":
    torch.manual_seed(2)
    Trainer(TrainConfig()).fit()
