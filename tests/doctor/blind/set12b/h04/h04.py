"""GAN on two moons; the generator moves every third step; one scaler for both."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def moons(n):
    a = torch.rand(n) * math.pi
    s = torch.randint(0, 2, (n,)).float()
    x = torch.stack([a.cos() * (1 - 2 * s) + s, a.sin() * (1 - 2 * s) + 0.5 * s], 1)
    return x - torch.tensor([0.5, 0.25]) + 0.05 * torch.randn(n, 2)


def mlp(i, o, w=48):
    return nn.Sequential(nn.Linear(i, w), nn.LeakyReLU(0.2), nn.Linear(w, w), nn.LeakyReLU(0.2), nn.Linear(w, o))


class Pair:
    def __init__(self, z=4):
        self.z = z
        self.g, self.d = mlp(z, 2), mlp(2, 1)
        with torch.no_grad():
            self.g[-1].bias.add_(2.5)
        self.og = torch.optim.Adam(self.g.parameters(), lr=2e-3, betas=(0.5, 0.99))
        self.od = torch.optim.Adam(self.d.parameters(), lr=2e-3, betas=(0.5, 0.99))
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**13)

    def sample(self, n):
        return self.g(torch.randn(n, self.z))

    def step(self, real, move_generator):
        self.od.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            fake = self.sample(len(real))
            ld = F.softplus(-self.d(real).float()).mean() + F.softplus(self.d(fake.detach()).float()).mean()
        self.scaler.scale(ld).backward()
        self.scaler.step(self.od)
        lg = None
        if move_generator:
            self.d.requires_grad_(False)
            self.og.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.float16):
                lg = F.softplus(-self.d(self.sample(len(real))).float()).mean()
            self.scaler.scale(lg).backward()
            self.scaler.step(self.og)
            self.d.requires_grad_(True)
        self.scaler.update()
        return ld.item(), None if lg is None else lg.item()


def main():
    torch.manual_seed(3)
    pair = Pair()
    for it in range(240):
        ld, lg = pair.step(moons(64), it % 3 == 0)
        if it % 48 == 0:
            with torch.no_grad():
                gap = (pair.sample(256).mean(0) - moons(256).mean(0)).norm().item()
            print(f"it {it} d {ld:.3f} g {lg:.3f} mean gap {gap:.3f}")
    with torch.no_grad():
        print("end gap", round((pair.sample(512).mean(0) - moons(512).mean(0)).norm().item(), 3))


main()
