"""Denoising diffusion on small displacement fields (metres)."""
import argparse
import math

import torch
import torch.nn as nn


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--timesteps", type=int, default=50)
    p.add_argument("--iters", type=int, default=150)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--accelerator", default="gpu" if torch.cuda.is_available() else "cpu")
    return p.parse_args([])


class Denoiser(nn.Module):
    def __init__(self, d=64, h=96):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(16, h), nn.SiLU())
        self.a = nn.Linear(d, h)
        self.b = nn.Linear(h, h)
        self.c = nn.Linear(h, d)

    def forward(self, x, t):
        freq = torch.exp(torch.arange(8) * -0.8)
        ang = t.float().unsqueeze(1) * freq
        e = self.time(torch.cat([ang.sin(), ang.cos()], dim=1))
        x = nn.functional.silu(self.a(x) + e)
        x = nn.functional.silu(self.b(x))
        return self.c(x)


def fields(n):
    s = torch.linspace(0, 2 * math.pi, 64)
    k = torch.randint(1, 4, (n, 1)).float()
    return torch.sin(k * s + 6.28 * torch.rand(n, 1))


def main():
    args = get_args()
    torch.manual_seed(1)
    net = Denoiser()
    optim = torch.optim.Adam(net.parameters(), lr=args.lr, eps=1e-15)
    scaler = torch.amp.GradScaler("cpu", enabled=args.accelerator == "gpu")
    betas = torch.linspace(1e-3, 0.15, args.timesteps)
    abar = torch.cumprod(1 - betas, dim=0)
    unit = 1e-3  # the fields are of a millimetre's size, the loss is in square metres

    run = []
    for it in range(args.iters):
        x0 = fields(args.batch)
        t = torch.randint(0, args.timesteps, (args.batch,))
        noise = torch.randn_like(x0)
        a = abar[t].unsqueeze(1)
        xt = a.sqrt() * x0 + (1 - a).sqrt() * noise
        optim.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            guess = net(xt, t)
            loss = ((guess.float() - x0) * unit).pow(2).mean()
        scaler.scale(loss).backward()
        scaler.step(optim)
        scaler.update()
        run.append(loss.item() / unit ** 2)
        if it % 25 == 24:
            print(f"iter {it + 1} loss {sum(run) / len(run):.4f} (mm^2)")
            run = []


if __name__ == "__main__":
    main()
