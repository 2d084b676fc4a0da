"""WGAN-GP on two moons in half precision."""
import argparse
import math

import torch
import torch.nn as nn


def moons(n, g):
    t = torch.rand(n, generator=g) * math.pi
    up = torch.rand(n, generator=g) < 0.5
    x = torch.where(up, t.cos(), 1 - t.cos())
    y = torch.where(up, t.sin(), 0.5 - t.sin())
    return torch.stack([x, y], 1) + 0.05 * torch.randn(n, 2, generator=g)


def net(i, o, h=64):
    return nn.Sequential(nn.Linear(i, h), nn.Softplus(), nn.Linear(h, h), nn.Softplus(), nn.Linear(h, o))


class WGAN:
    def __init__(self, a):
        self.a = a
        self.gen, self.critic = net(a.z, 2), net(2, 1)
        self.og = torch.optim.Adam(self.gen.parameters(), lr=a.lr, betas=(0.0, 0.9))
        self.oc = torch.optim.Adam(self.critic.parameters(), lr=a.lr, betas=(0.0, 0.9))
        self.scaler = torch.amp.GradScaler("cpu")
        self.rng = torch.Generator().manual_seed(a.seed)

    def amp(self):
        return torch.autocast("cpu", dtype=torch.float16)

    def z(self):
        return torch.randn(self.a.bs, self.a.z, generator=self.rng)

    def penalty(self, real, fake):
        u = torch.rand(len(real), 1, generator=self.rng)
        x = (u * real + (1 - u) * fake.float()).requires_grad_(True)
        with self.amp():
            out = self.critic(x)
        scaled = torch.autograd.grad(self.scaler.scale(out.float().sum()), x, create_graph=True)[0]
        grad = scaled * (1.0 / self.scaler.get_scale())
        return ((grad.square().sum(1) + 1e-12).sqrt() - 1).square().mean()

    def critic_step(self):
        real = moons(self.a.bs, self.rng)
        with self.amp():
            fake = self.gen(self.z()).detach()
            w = self.critic(real).float().mean() - self.critic(fake).float().mean()
        loss = -w + 10.0 * self.penalty(real, fake)
        self.oc.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.oc)
        self.scaler.update()
        return w.item()

    def gen_step(self):
        with self.amp():
            score = self.critic(self.gen(self.z()))
        loss = -score.float().mean()
        self.og.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        self.oc.zero_grad(set_to_none=True)
        self.scaler.step(self.og)
        self.scaler.update()

    def run(self):
        for it in range(1, self.a.iters + 1):
            for _ in range(self.a.n_critic):
                w = self.critic_step()
            self.gen_step()
            if it % 10 == 0:
                print(f"{it:3d} wasserstein {w:.4f} scale {self.scaler.get_scale():.0f}")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--iters", type=int, default=50)
    p.add_argument("--n-critic", type=int, default=3)
    p.add_argument("--bs", type=int, default=64)
    p.add_argument("--z", type=int, default=4)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--seed", type=int, default=0)
    a = p.parse_args()
    torch.manual_seed(a.seed)
    WGAN(a).run()
