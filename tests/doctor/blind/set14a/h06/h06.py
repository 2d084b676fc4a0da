"""Conditional GAN, hinge loss, one scaler per network; the discriminator rests while it is ahead."""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

from nets import CondGenerator, ProjectionDiscriminator


@dataclass
class Opts:
    iters: int = 120
    batch: int = 32
    lr_g: float = 2e-3
    lr_d: float = 2e-3
    rest_above: float = 0.9
    scale_g: float = 2.0 ** 16
    scale_d: float = 2.0 ** 20


def reals(n):
    yy, xx = torch.meshgrid(torch.arange(12.0), torch.arange(12.0), indexing="ij")
    y = torch.randint(0, 3, (n,))
    c = torch.rand(n, 2, 1, 1) * 3 + 4
    dy, dx = (yy - c[:, 0]).abs(), (xx - c[:, 1]).abs()
    shapes = torch.stack([(dy ** 2 + dx ** 2).sqrt() - 3, torch.maximum(dy, dx) - 3, dy - 1.5], 0)
    d = shapes[y, torch.arange(n)]
    return (torch.sigmoid(-2 * d) * 2 - 1)[:, None], y


class AmpOptimizer:
    def __init__(self, module, lr, scale):
        self.params = list(module.parameters())
        self.opt = torch.optim.Adam(self.params, lr=lr, betas=(0.0, 0.9))
        self.scaler = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=100)
        self.rests = 0

    def minimize(self, loss, rest=False):
        self.opt.zero_grad(set_to_none=True)
        if rest:
            self.rests += 1
            return None
        self.scaler.scale(loss).backward(inputs=[p for p in self.params])
        self.scaler.unscale_(self.opt)
        norm = nn.utils.clip_grad_norm_([p for p in self.params if p.grad is not None], 10.0)
        self.scaler.step(self.opt)
        self.scaler.update()
        return norm.item()


class Session:
    def __init__(self, o):
        self.o = o
        self.G, self.D = CondGenerator(), ProjectionDiscriminator()
        self.og, self.od = AmpOptimizer(self.G, o.lr_g, o.scale_g), AmpOptimizer(self.D, o.lr_d, o.scale_d)

    def fake(self, n):
        y = torch.randint(0, 3, (n,))
        return self.G(torch.randn(n, 8), y), y

    def d_step(self):
        x, y = reals(self.o.batch)
        with torch.autocast("cpu", dtype=torch.float16):
            with torch.no_grad():
                f, fy = self.fake(self.o.batch)
            a, b = self.D(x, y).float(), self.D(f, fy).float()
            loss = F.relu(1 - a).mean() + F.relu(1 + b).mean()
        acc = ((a > 0).float().mean() + (b < 0).float().mean()) / 2
        return loss.item(), acc.item(), self.od.minimize(loss, rest=acc.item() > self.o.rest_above)

    def g_step(self):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = -self.D(*self.fake(self.o.batch)).float().mean()
        return loss.item(), self.og.minimize(loss)

    def quality(self):
        x, y = reals(300)
        with torch.no_grad():
            f = self.G(torch.randn(300, 8), y)
        return sum((x[y == k].mean(0) - f[y == k].mean(0)).square().mean().item() for k in range(3)) / 3

    def run(self):
        for i in range(self.o.iters):
            d, acc, nd = self.d_step()
            g, ng = self.g_step()
            if i % 20 == 0 or i == self.o.iters - 1:
                print(f"{i:4d} d {d:.3f} g {g:.3f} acc {acc:.2f} |d| {'-' if nd is None else f'{nd:.2f}'} |g| {ng:.2f} "
                      f"rests {self.od.rests} scales {self.og.scaler.get_scale():.0f}/{self.od.scaler.get_scale():.0f} "
                      f"mean image error {self.quality():.4f}")


if __name__ == "__main__":
    torch.manual_seed(27)
    Session(Opts()).run()
