"""Next-value forecasting with a small transformer, warm-up schedule through LambdaLR, bfloat16."""
import argparse
import math

import torch
import torch.nn as nn
from torch.optim.lr_scheduler import LambdaLR


def get_args(argv=None):
    ap = argparse.ArgumentParser()
    ap.add_argument("--lr", type=float, default=1.5e-2)
    ap.add_argument("--warmup", type=int, default=4)
    ap.add_argument("--steps", type=int, default=160)
    ap.add_argument("--window", type=int, default=16)
    return ap.parse_args(argv)


def series(n=2000):
    t = torch.arange(n, dtype=torch.float32)
    g = torch.Generator().manual_seed(0)
    return torch.sin(t / 7) + 0.5 * torch.sin(t / 23) + 0.05 * torch.randn(n, generator=g)


class Forecaster(nn.Module):
    def __init__(self, window, d=24):
        super().__init__()
        self.inp = nn.Linear(1, d)
        self.pos = nn.Parameter(torch.zeros(window, d))
        self.q, self.k, self.v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.ReLU(), nn.Linear(2 * d, d))
        self.out = nn.Linear(d, 1)

    def forward(self, x):
        h = self.inp(x.unsqueeze(-1)) + self.pos
        att = (self.q(h) @ self.k(h).transpose(1, 2) / math.sqrt(h.shape[-1])).softmax(-1)
        h = h + att @ self.v(h)
        h = h + self.ff(h)
        return self.out(h[:, -1]).squeeze(-1)


def make_scheduler(optimizer, warmup):
    def factor(step):
        return (step + 1) / warmup

    return LambdaLR(optimizer, factor)


def main():
    args = get_args()
    torch.manual_seed(1)
    data = series()
    model = Forecaster(args.window)
    opt = torch.optim.SGD(model.parameters(), lr=args.lr)
    sched = make_scheduler(opt, args.warmup)
    for step in range(args.steps):
        start = torch.randint(0, len(data) - args.window - 1, (32,))
        x = torch.stack([data[s : s + args.window] for s in start])
        y = data[start + args.window]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            pred = model(x)
        loss = nn.functional.mse_loss(pred.float(), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if step % 10 == 0:
            print(f"{step:3d} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
