"""Hinge GAN on a ring of Gaussians, float16 with one loss scaler and two optimizers."""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


def ring(n, gen):
    k = torch.randint(0, 8, (n,), generator=gen).float() * (2 * math.pi / 8)
    return torch.stack([k.cos(), k.sin()], 1) + 0.05 * torch.randn(n, 2, generator=gen)


def mlp(i, o, w=64):
    return nn.Sequential(nn.Linear(i, w), nn.LeakyReLU(0.2), nn.Linear(w, w), nn.LeakyReLU(0.2), nn.Linear(w, o))


class GanTrainer:
    def __init__(self, latent=8, batch=64, seed=0):
        self.gen = torch.Generator().manual_seed(seed)
        self.latent, self.batch = latent, batch
        self.G, self.D = mlp(latent, 2), mlp(2, 1)
        self.g_opt = torch.optim.Adam(self.G.parameters(), lr=1e-3, betas=(0.0, 0.9))
        self.d_opt = torch.optim.Adam(self.D.parameters(), lr=2e-3, betas=(0.0, 0.9))
        self.scaler = torch.amp.GradScaler("cpu")

    def noise(self):
        return torch.randn(self.batch, self.latent, generator=self.gen)

    def amp(self):
        return torch.autocast("cpu", dtype=torch.float16)

    def d_step(self):
        real = ring(self.batch, self.gen)
        with self.amp():
            with torch.no_grad():
                fake = self.G(self.noise())
            r, f = self.D(real), self.D(fake)
        loss = F.relu(1 - r.float()).mean() + F.relu(1 + f.float()).mean()
        self.d_opt.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.d_opt)
        self.scaler.update()
        return loss.item()

    def g_step(self):
        for p in self.D.parameters():
            p.requires_grad_(False)
        with self.amp():
            out = self.D(self.G(self.noise()))
        loss = -out.float().mean()
        self.g_opt.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.g_opt)
        self.scaler.update()
        for p in self.D.parameters():
            p.requires_grad_(True)
        return loss.item()


def main():
    torch.manual_seed(0)
    tr = GanTrainer()
    for it in range(150):
        d = sum(tr.d_step() for _ in range(2)) / 2
        g = tr.g_step()
        if it % 25 == 24:
            with torch.no_grad():
                radius = tr.G(torch.randn(256, 8)).norm(dim=1)
            print(f"{it + 1} D {d:.3f} G {g:.3f} radius {radius.mean():.3f} scale {tr.scaler.get_scale():g}")


main()
