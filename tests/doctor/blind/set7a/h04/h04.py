"""LSGAN on a 2-D mixture, one GradScaler, two optimizers, float16."""
import math

import torch
import torch.nn as nn


def ring(n, gen):
    k = torch.randint(0, 8, (n,), generator=gen).float()
    a = k * math.pi / 4
    return torch.stack([a.cos(), a.sin()], 1) * 1.5 + 0.05 * torch.randn(n, 2, generator=gen)


def net(i, o, h=48):
    return nn.Sequential(nn.Linear(i, h), nn.LeakyReLU(0.2), nn.Linear(h, h), nn.LeakyReLU(0.2), nn.Linear(h, o))


class GAN:
    def __init__(self):
        self.g, self.d = net(4, 2), net(2, 1)
        self.og = torch.optim.Adam(self.g.parameters(), lr=2e-3, betas=(0.5, 0.9))
        self.od = torch.optim.Adam(self.d.parameters(), lr=2e-3, betas=(0.5, 0.9))
        self.scaler = torch.amp.GradScaler("cpu")
        self.amp = lambda: torch.autocast("cpu", dtype=torch.float16)

    def d_step(self, real, z):
        with self.amp():
            fake = self.g(z).detach()
            r, f = self.d(real).float(), self.d(fake).float()
            loss = (r - 1).square().mean() + f.square().mean()
        self.od.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.od)
        self.scaler.update()
        return loss.item()

    def g_step(self, z):
        for p in self.d.parameters():
            p.requires_grad_(False)
        with self.amp():
            loss = (self.d(self.g(z)).float() - 1).square().mean()
        self.og.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.og)
        self.scaler.update()
        for p in self.d.parameters():
            p.requires_grad_(True)
        return loss.item()


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    gan = GAN()
    for it in range(240):
        d = gan.d_step(ring(64, gen), torch.randn(64, 4, generator=gen))
        g = gan.g_step(torch.randn(64, 4, generator=gen))
        if it % 30 == 0 or it == 239:
            with torch.no_grad():
                radius = gan.g(torch.randn(256, 4, generator=gen)).norm(dim=1).mean().item()
            print(f"it {it} d {d:.3f} g {g:.3f} mean radius {radius:.3f} scale {gan.scaler.get_scale():g}")


if __name__ == "__main__":
    main()
