"""Critic/generator pair with a slope term on a ring of Gaussians, float16."""
import math

import torch
import torch.nn as nn

Z = 8


def ring(n, modes=6):
    k = torch.randint(0, modes, (n,)) * (2 * math.pi / modes)
    return torch.stack([k.cos(), k.sin()], 1) * 2 + 0.1 * torch.randn(n, 2)


def net(i, o, w=32):
    return nn.Sequential(nn.Linear(i, w), nn.LeakyReLU(0.2), nn.Linear(w, w), nn.LeakyReLU(0.2), nn.Linear(w, o))


class WGAN:
    def __init__(self, lam=10.0):
        self.gen, self.critic, self.lam = net(Z, 2), net(2, 1), lam
        self.og = torch.optim.Adam(self.gen.parameters(), 1e-3, betas=(0.5, 0.9))
        self.oc = torch.optim.Adam(self.critic.parameters(), 1e-3, betas=(0.5, 0.9))
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14)

    def slope(self, real, fake):
        t = torch.rand(len(real), 1)
        mid = (t * real + (1 - t) * fake).requires_grad_(True)
        with torch.autocast("cpu", dtype=torch.float16):
            out = self.critic(mid)
        (g,) = torch.autograd.grad(self.scaler.scale(out.float().sum()), mid, create_graph=True)
        return (((g.square().sum(1) + 1e-12).sqrt() - 1) ** 2).mean()

    def critic_step(self, real):
        fake = self.gen(torch.randn(len(real), Z)).detach()
        slope = self.slope(real, fake)
        with torch.autocast("cpu", dtype=torch.float16):
            gap = self.critic(fake).float().mean() - self.critic(real).float().mean()
        self.oc.zero_grad()
        self.scaler.scale(gap + self.lam * slope).backward()
        self.scaler.step(self.oc)
        return gap.item(), slope.item()

    def gen_step(self, n):
        self.og.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            value = -self.critic(self.gen(torch.randn(n, Z))).float().mean()
        self.scaler.scale(value).backward()
        self.scaler.step(self.og)
        return value.item()


def main():
    torch.manual_seed(8)
    gan = WGAN()
    for it in range(60):
        for _ in range(2):
            gap, slope = gan.critic_step(ring(64))
            gan.scaler.update()
        value = gan.gen_step(64)
        gan.scaler.update()
        if it % 10 == 0:
            print(f"it {it:3d} gap {gap:+.4f} slope {slope:.4g} gen {value:+.4f} "
                  f"scale {gan.scaler.get_scale():g}")


main()
