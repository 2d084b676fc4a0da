import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class ResBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.a = nn.Linear(dim, dim)
        self.b = nn.Linear(dim, dim)

    def forward(self, x):
        return x + self.b(F.relu(self.a(x)))


class HousePrices(nn.Module):
    def __init__(self, features=12, dim=64, depth=4):
        super().__init__()
        self.inp = nn.Linear(features, dim)
        self.blocks = nn.Sequential(*[ResBlock(dim) for _ in range(depth)])
        self.out = nn.Linear(dim, 1)

    def forward(self, x):
        return self.out(self.blocks(self.inp(x))).squeeze(-1)


def batches(n, batch_size, gen):
    w = torch.randn(12, generator=gen)
    for _ in range(n):
        x = torch.randn(batch_size, 12, generator=gen)
        y = x @ w + 0.5 * (x[:, 0] * x[:, 1]) + 0.1 * torch.randn(batch_size, generator=gen)
        yield x, y


class Warmup:
    """Linear warmup to the base rate, then cosine."""

    def __init__(self, opt, base, warm, total):
        self.opt, self.base, self.warm, self.total, self.t = opt, base, warm, total, 0

    def step(self):
        self.t += 1
        if self.t < self.warm:
            f = self.t / self.warm
        else:
            f = 0.5 * (1 + math.cos(math.pi * (self.t - self.warm) / (self.total - self.warm)))
        for g in self.opt.param_groups:
            g["lr"] = self.base * f


def train(args):
    torch.manual_seed(args.seed)
    gen = torch.Generator().manual_seed(args.seed)
    model = HousePrices()
    lr = args.lr * args.batch_size / 256
    opt = torch.optim.SGD(model.parameters(), lr=0.0, momentum=0.9, nesterov=True)
    sched = Warmup(opt, lr, args.warmup, args.steps)
    scaler = torch.amp.GradScaler("cpu")
    for step, (x, y) in enumerate(batches(args.steps, args.batch_size, gen)):
        sched.step()
        with torch.autocast("cpu", dtype=torch.float16):
            pred = model(x)
            loss = F.mse_loss(pred, y)
        opt.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        if step % 10 == 0 or step == args.steps - 1:
            print(f"{step:4d} lr {opt.param_groups[0]['lr']:.4f} mse {loss.item():.4g} scale {scaler.get_scale():g}")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--lr", type=float, default=0.03)
    p.add_argument("--batch-size", type=int, default=1024)
    p.add_argument("--steps", type=int, default=100)
    p.add_argument("--warmup", type=int, default=60)
    p.add_argument("--seed", type=int, default=0)
    train(p.parse_args())
