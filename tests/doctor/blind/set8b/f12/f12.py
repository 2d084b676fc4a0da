"""Denoising diffusion on a ring of points."""
import argparse
import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

from schedule import make_schedule


def ring(n, seed):
    g = torch.Generator().manual_seed(seed)
    a = torch.randint(8, (n,), generator=g) * (math.pi / 4)
    return torch.stack([a.cos(), a.sin()], -1) * 1.5 + 0.08 * torch.randn(n, 2, generator=g)


class Denoiser(nn.Module):
    def __init__(self, hidden=96, steps=100):
        super().__init__()
        self.time = nn.Embedding(steps, hidden)
        self.inp = nn.Linear(2, hidden)
        self.hid = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(3))
        self.out = nn.Linear(hidden, 2)

    def forward(self, x, t):
        h = self.inp(x) + self.time(t)
        for fc in self.hid:
            h = h + F.relu(fc(h))
        return self.out(h)


class Diffusion:
    def __init__(self, steps=100):
        self.steps = steps
        beta = torch.linspace(1e-4, 0.05, steps)
        self.abar = torch.cumprod(1 - beta, 0)

    def corrupt(self, x):
        t = torch.randint(self.steps, (len(x),))
        noise = torch.randn_like(x)
        a = self.abar[t][:, None]
        return a.sqrt() * x + (1 - a).sqrt() * noise, t, noise


def options():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=24)
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--lr", type=float, default=0.02)
    p.add_argument("--momentum", type=float, default=0.9)
    p.add_argument("--schedule", choices=["cosine", "warmup"], default="cosine")
    p.add_argument("--warmup", type=int, default=40)
    return p.parse_args()


def main():
    args = options()
    torch.manual_seed(6)
    loader = DataLoader(TensorDataset(ring(4096, 1)), args.batch, shuffle=True, drop_last=True)
    net, diffusion = Denoiser(), Diffusion()
    opt = torch.optim.SGD(net.parameters(), lr=args.lr, momentum=args.momentum)
    sched = make_schedule(args.schedule, opt, args.warmup, args.epochs * len(loader))
    for epoch in range(args.epochs):
        total = 0.0
        for (x,) in loader:
            noisy, t, noise = diffusion.corrupt(x)
            opt.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = F.mse_loss(net(noisy, t), noise)
            loss.backward()
            opt.step()
            sched.step()
            total += loss.item()
        mean = total / len(loader)
        print(f"epoch {epoch:2d} loss {mean:.4f} lr {sched.get_last_lr()[0]:.3f}", flush=True)
        if math.isnan(mean):
            sys.exit(3)


if __name__ == "__main__":
    main()
