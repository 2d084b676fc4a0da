import math

import torch
import torch.nn.functional as F

from .nets import Discriminator, Generator


class GanTrainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.g = Generator(cfg.z)
        self.d = Discriminator()
        self.opt_g = torch.optim.Adam(self.g.parameters(), lr=cfg.lr_g, betas=(0.5, 0.99))
        self.opt_d = torch.optim.Adam(self.d.parameters(), lr=cfg.lr_d, betas=(0.5, 0.99))
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 13)
        self.rng = torch.Generator().manual_seed(cfg.seed)

    def real(self):
        y = torch.randint(0, 8, (self.cfg.batch,), generator=self.rng)
        ang = y * (2 * math.pi / 8)
        x = torch.stack([ang.cos(), ang.sin()], 1) + 0.05 * torch.randn(len(y), 2, generator=self.rng)
        return x, y

    def noise(self, n):
        return torch.randn(n, self.cfg.z, generator=self.rng)

    def autocast(self):
        return torch.autocast("cpu", dtype=torch.float16)

    @staticmethod
    def bce(logits, label):
        return F.binary_cross_entropy_with_logits(logits, torch.full_like(logits, label))

    def d_step(self, x, y):
        self.opt_d.zero_grad(set_to_none=True)
        with self.autocast():
            fake = self.g(self.noise(len(y)), y).detach()
            loss = self.bce(self.d(x, y), 1.0) + self.bce(self.d(fake, y), 0.0)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt_d)
        return loss.item()

    def g_step(self, y):
        self.opt_g.zero_grad(set_to_none=True)
        self.d.requires_grad_(False)
        with self.autocast():
            loss = self.bce(self.d(self.g(self.noise(len(y)), y), y), 1.0)
        self.scaler.scale(loss).backward()
        self.opt_g.step()
        self.d.requires_grad_(True)
        return loss.item()

    def run(self):
        for it in range(1, self.cfg.iters + 1):
            x, y = self.real()
            ld = self.d_step(x, y)
            lg = self.g_step(y)
            self.scaler.update()
            if it % 25 == 0:
                print(f"{it:4d}  D {ld:.3f}  G {lg:.3f}")

    @torch.no_grad()
    def distance(self, n=512):
        y = torch.arange(n) % 8
        ang = y * (2 * math.pi / 8)
        x = self.g(self.noise(n), y)
        return (x - torch.stack([ang.cos(), ang.sin()], 1)).norm(dim=1).mean().item()
