"""Denoising autoencoder for small glyphs, continued from a saved session."""
import argparse
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

BASE = os.path.dirname(os.path.abspath(__file__))


class Glyphs(Dataset):
    def __init__(self, n=1024, size=16, seed=0):
        g = torch.Generator().manual_seed(seed)
        yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
        cx = torch.randint(4, size - 4, (n, 1, 1), generator=g)
        cy = torch.randint(4, size - 4, (n, 1, 1), generator=g)
        r = torch.randint(2, 5, (n, 1, 1), generator=g)
        self.clean = (((xx - cx) ** 2 + (yy - cy) ** 2) <= r ** 2).float()[:, None]
        self.noise = 0.3

    def __len__(self):
        return len(self.clean)

    def __getitem__(self, i):
        c = self.clean[i]
        return c + self.noise * torch.randn_like(c), c


class AutoEncoder(nn.Module):
    def __init__(self, ch=16):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, ch, 3, 2, 1), nn.ReLU(), nn.Conv2d(ch, ch * 2, 3, 2, 1), nn.ReLU())
        self.up = nn.Sequential(nn.ConvTranspose2d(ch * 2, ch, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(ch, 1, 4, 2, 1))

    def forward(self, x):
        return self.up(self.down(x))


class Session:
    """Everything that has to survive a restart."""

    def __init__(self, lr):
        self.model = AutoEncoder()
        self.opt = torch.optim.SGD(self.model.parameters(), lr=lr, momentum=0.9)
        self.scaler = torch.amp.GradScaler("cpu")
        self.sched = torch.optim.lr_scheduler.LinearLR(self.opt, 1.0, 0.3, total_iters=60)
        self.epoch = 0

    def state(self):
        return {k: getattr(self, k).state_dict() for k in ("model", "opt", "scaler", "sched")} | {"epoch": self.epoch}

    def restore(self, path):
        blob = torch.load(path)
        self.model.load_state_dict(blob["model"])
        self.opt.load_state_dict(blob["opt"])
        self.sched.load_state_dict(blob["sched"])
        self.scaler.load_state_dict(blob["scaler"])
        self.epoch = blob["epoch"]


def run_epoch(s, loader):
    s.model.train()
    acc = 0.0
    for noisy, clean in loader:
        s.opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.binary_cross_entropy_with_logits(s.model(noisy), clean)
        s.scaler.scale(loss).backward()
        s.scaler.unscale_(s.opt)
        nn.utils.clip_grad_norm_(s.model.parameters(), 2.0)
        s.scaler.step(s.opt)
        s.scaler.update()
        acc += loss.item()
    s.sched.step()
    s.epoch += 1
    return acc / len(loader)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=6)
    ap.add_argument("--batch", type=int, default=32)
    ap.add_argument("--lr", type=float, default=0.05)
    ap.add_argument("--resume", default="")
    ap.add_argument("--out", default="")
    args = ap.parse_args()
    torch.manual_seed(0)
    s = Session(args.lr)
    if args.resume:
        s.restore(os.path.join(BASE, args.resume))
        print("continuing after epoch", s.epoch)
    loader = DataLoader(Glyphs(), args.batch, shuffle=True)
    for _ in range(args.epochs):
        loss = run_epoch(s, loader)
        print(f"epoch {s.epoch} bce {loss:.4f} lr {s.sched.get_last_lr()[0]:.4f}")
    if args.out:
        torch.save(s.state(), os.path.join(BASE, args.out))


if __name__ == "__main__":
    main()
