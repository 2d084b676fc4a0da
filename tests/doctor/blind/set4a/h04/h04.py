"""GAN on a ring of Gaussians: two optimizers, one scaler, R1 penalty every fourth step."""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


def ring(n, g):
    k = torch.randint(8, (n,), generator=g).float()
    a = 2 * math.pi * k / 8
    return torch.stack([a.cos(), a.sin()], 1) * 2 + 0.05 * torch.randn(n, 2, generator=g)


def mlp(i, o, act):
    return nn.Sequential(nn.Linear(i, 64), act(), nn.Linear(64, 64), act(), nn.Linear(64, o))


class GAN:
    def __init__(self):
        torch.manual_seed(0)
        self.rng = torch.Generator().manual_seed(0)
        self.g, self.d = mlp(8, 2, nn.ReLU), mlp(2, 1, nn.SiLU)
        self.opt_g = torch.optim.Adam(self.g.parameters(), lr=5e-4, betas=(0.5, 0.99))
        self.opt_d = torch.optim.Adam(self.d.parameters(), lr=5e-4, betas=(0.5, 0.99))
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)

    def r1(self, real):
        real = real.detach().requires_grad_(True)
        with torch.autocast("cpu", dtype=torch.float16):
            out = self.d(real).float().sum()
        scaled = torch.autograd.grad(self.scaler.scale(out), real, create_graph=True)[0]
        grad = scaled.float() / self.scaler.get_scale()
        return grad.pow(2).sum(1).mean()

    def d_step(self, real, penalty):
        z = torch.randn(len(real), 8, generator=self.rng)
        self.opt_d.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            with torch.no_grad():
                fake = self.g(z)
            loss = F.softplus(self.d(fake).float()).mean() + F.softplus(-self.d(real).float()).mean()
        if penalty:
            loss = loss + 0.4 * self.r1(real)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt_d)
        return loss

    def g_step(self, n):
        z = torch.randn(n, 8, generator=self.rng)
        self.d.requires_grad_(False)
        self.opt_g.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.softplus(-self.d(self.g(z)).float()).mean()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt_g)
        self.d.requires_grad_(True)
        return loss

    def train(self, steps=200):
        for i in range(steps):
            real = ring(128, self.rng)
            ld = self.d_step(real, penalty=i % 4 == 0)
            lg = self.g_step(128)
            self.scaler.update()
            if i % 40 == 0 or i == steps - 1:
                with torch.no_grad():
                    s = self.g(torch.randn(512, 8, generator=self.rng))
                print(f"{i} d {ld.item():.3f} g {lg.item():.3f} radius {s.norm(dim=1).mean().item():.2f} scale {self.scaler.get_scale():g}")


if __name__ == "__main__":
    GAN().train()
