import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Generator(nn.Module):
    def __init__(self, z=8, h=64):
        super().__init__()
        self.z = z
        self.net = nn.Sequential(nn.Linear(z, h), nn.LeakyReLU(0.2), nn.Linear(h, h), nn.LeakyReLU(0.2), nn.Linear(h, 2))

    def forward(self, n):
        return self.net(torch.randn(n, self.z))


class Critic(nn.Module):
    def __init__(self, h=64):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, h), nn.LeakyReLU(0.2), nn.Linear(h, h), nn.LeakyReLU(0.2), nn.Linear(h, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)


def ring(n):
    k = torch.randint(0, 8, (n,)) * (2 * math.pi / 8)
    return torch.stack([2 * k.cos(), 2 * k.sin()], 1) + 0.05 * torch.randn(n, 2)


def gradient_penalty(critic, real, scaler):
    real = real.clone().requires_grad_(True)
    with torch.autocast("cpu", dtype=torch.float16):
        out = critic(real).float().sum()
    (g,) = torch.autograd.grad(scaler.scale(out), real, create_graph=True)
    g = g / scaler.get_scale()
    return g.pow(2).sum(1).mean()


def set_grad(module, flag):
    for p in module.parameters():
        p.requires_grad_(flag)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--iters", type=int, default=400)
    ap.add_argument("--batch-size", type=int, default=128)
    ap.add_argument("--r1", type=float, default=0.1)
    args = ap.parse_args()
    torch.manual_seed(0)
    G, D = Generator(), Critic()
    opt_g = torch.optim.Adam(G.parameters(), lr=1e-3, betas=(0.5, 0.99))
    opt_d = torch.optim.Adam(D.parameters(), lr=1e-3, betas=(0.5, 0.99))
    scaler_g = torch.amp.GradScaler("cpu")
    scaler_d = torch.amp.GradScaler("cpu", init_scale=2.0 ** 12)

    for it in range(args.iters):
        set_grad(D, True)
        real = ring(args.batch_size)
        with torch.autocast("cpu", dtype=torch.float16):
            with torch.no_grad():
                fake = G(args.batch_size)
            loss_d = F.softplus(D(fake).float()).mean() + F.softplus(-D(real).float()).mean()
        if it % 8 == 0:
            loss_d = loss_d + args.r1 * 8 * gradient_penalty(D, real, scaler_d)
        opt_d.zero_grad(set_to_none=True)
        scaler_d.scale(loss_d).backward()
        scaler_d.step(opt_d)
        scaler_d.update()

        set_grad(D, False)
        with torch.autocast("cpu", dtype=torch.float16):
            loss_g = F.softplus(-D(G(args.batch_size)).float()).mean()
        opt_g.zero_grad(set_to_none=True)
        scaler_g.scale(loss_g).backward()
        scaler_g.step(opt_g)
        scaler_g.update()

        if it % 50 == 0 or it == args.iters - 1:
            with torch.no_grad():
                r = G(512).norm(dim=1)
            print(f"iter {it} D {loss_d.item():.3f} G {loss_g.item():.3f} radius {r.mean():.2f} err {(r - 2).abs().mean():.3f}")


if __name__ == "__main__":
    main()
