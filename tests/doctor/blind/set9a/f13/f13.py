"""Denoising diffusion on 2-D points (small score network)."""
import argparse
import math
import warnings

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")


def moons(n, seed):
    g = torch.Generator().manual_seed(seed)
    t = math.pi * torch.rand(n, generator=g)
    side = torch.rand(n, generator=g) < 0.5
    x = torch.stack([t.cos(), t.sin()], 1)
    x = torch.where(side[:, None], x, torch.tensor([1.0, 0.35]) - x)
    return x - torch.tensor([0.5, 0.18]) + 0.04 * torch.randn(n, 2, generator=g)


class ScoreNet(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.register_buffer("freq", torch.exp(torch.linspace(0, 4, 8)))
        self.net = nn.Sequential(
            nn.Linear(2 + 16, hidden), nn.SiLU(),
            nn.Linear(hidden, hidden), nn.SiLU(),
            nn.Linear(hidden, 2),
        )

    def forward(self, x, t):
        ang = t[:, None] * self.freq
        return self.net(torch.cat([x, ang.sin(), ang.cos()], 1))


class Diffusion:
    def __init__(self, steps):
        beta = torch.linspace(1e-4, 0.02, steps)
        self.keep = torch.cumprod(1 - beta, 0)
        self.beta, self.steps = beta, steps

    def noisy(self, x, t, eps):
        k = self.keep[t][:, None]
        return k.sqrt() * x + (1 - k).sqrt() * eps

    def weight(self, t):
        """Variational weighting of the terms."""
        k = self.keep[t]
        return self.beta[t] ** 2 / (2 * k * (1 - k)) / self.steps ** 2


def build(args):
    net = ScoreNet()
    opt = torch.optim.Adam(net.parameters(), lr=args.lr, eps=1e-14)
    sched = torch.optim.lr_scheduler.LinearLR(opt, 1.0, 0.3, total_iters=args.epochs)
    scaler = torch.amp.GradScaler(init_scale=2.0 ** 30, enabled=args.amp)
    return net, opt, sched, scaler


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=10)
    ap.add_argument("--batch", type=int, default=256)
    ap.add_argument("--steps", type=int, default=1000)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--amp", action=argparse.BooleanOptionalAction, default=True)
    args = ap.parse_args()
    torch.manual_seed(3)

    diff = Diffusion(args.steps)
    loader = DataLoader(TensorDataset(moons(4096, 1)), args.batch, shuffle=True, drop_last=True)
    net, opt, sched, scaler = build(args)
    for epoch in range(args.epochs):
        vlb = plain = 0.0
        for (x,) in loader:
            t = torch.randint(args.steps, (len(x),))
            eps = torch.randn_like(x)
            opt.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.float16, enabled=args.amp):
                out = net(diff.noisy(x, t, eps), t / args.steps)
                err = (out.float() - eps).pow(2).mean(1)
                loss = (diff.weight(t) * err).mean()
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            vlb += loss.item() / len(loader)
            plain += err.mean().item() / len(loader)
        sched.step()
        print(f"epoch {epoch} weighted {vlb:.3e} noise mse {plain:.4f}")


if __name__ == "__main__":
    main()
