"""Wasserstein GAN with gradient penalty on a ring of Gaussians."""
import argparse
import math

import torch
from torch import nn


def ring(n, gen, modes=8):
    k = torch.randint(modes, (n,), generator=gen)
    ang = 2 * math.pi * k / modes
    return 2 * torch.stack([ang.cos(), ang.sin()], 1) + 0.05 * torch.randn(n, 2, generator=gen)


def net(i, o, hidden):
    return nn.Sequential(nn.Linear(i, hidden), nn.LeakyReLU(0.2), nn.Linear(hidden, hidden), nn.LeakyReLU(0.2), nn.Linear(hidden, o))


class WGAN:
    def __init__(self, args):
        self.args = args
        self.G, self.D = net(args.latent, 2, args.hidden), net(2, 1, args.hidden)
        self.opt_g = torch.optim.Adam(self.G.parameters(), args.lr, betas=(0.5, 0.9))
        self.opt_d = torch.optim.Adam(self.D.parameters(), args.lr, betas=(0.5, 0.9))
        self.scale_g = torch.amp.GradScaler("cpu", init_scale=2.0 ** 14)
        self.scale_d = torch.amp.GradScaler("cpu", init_scale=2.0 ** 18)

    def amp(self):
        return torch.autocast("cpu", dtype=torch.float16)

    def penalty(self, real, fake):
        mix = torch.rand(len(real), 1)
        point = (mix * real + (1 - mix) * fake).requires_grad_(True)
        with self.amp():
            score = self.D(point)
        total = self.scale_d.scale(score.float().sum())
        grad, = torch.autograd.grad(total, point, create_graph=True)
        grad = grad / self.scale_d.get_scale()
        return ((grad.norm(dim=1) - 1) ** 2).mean()

    def critic(self, real):
        with torch.no_grad(), self.amp():
            fake = self.G(torch.randn(len(real), self.args.latent)).float()
        self.opt_d.zero_grad(set_to_none=True)
        with self.amp():
            gap = self.D(fake).float().mean() - self.D(real).float().mean()
        loss = gap + self.args.gp * self.penalty(real, fake)
        self.scale_d.scale(loss).backward()
        self.scale_d.step(self.opt_d)
        self.scale_d.update()
        return -gap.item()

    def generator(self):
        self.opt_g.zero_grad(set_to_none=True)
        with self.amp():
            fake = self.G(torch.randn(self.args.batch, self.args.latent))
            loss = -self.D(fake).float().mean()
        self.scale_g.scale(loss).backward()
        self.scale_g.step(self.opt_g)
        self.scale_g.update()
        return loss.item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--iters", type=int, default=240)
    ap.add_argument("--batch", type=int, default=96)
    ap.add_argument("--latent", type=int, default=4)
    ap.add_argument("--hidden", type=int, default=48)
    ap.add_argument("--critic", type=int, default=3)
    ap.add_argument("--gp", type=float, default=1.0)
    ap.add_argument("--lr", type=float, default=1e-3)
    args = ap.parse_args()
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(0)
    gan = WGAN(args)
    for it in range(1, args.iters + 1):
        for _ in range(args.critic):
            w = gan.critic(ring(args.batch, gen))
        g = gan.generator()
        if it % 40 == 0:
            with torch.no_grad():
                sample = gan.G(torch.randn(1000, args.latent))
                radius = sample.norm(dim=1)
            print(f"iter {it} W {w:.3f} G {g:.3f} radius {radius.mean():.2f}+-{radius.std():.2f} "
                  f"scales {gan.scale_d.get_scale():g} {gan.scale_g.get_scale():g}")


if __name__ == "__main__":
    main()
