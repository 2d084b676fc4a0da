from dataclasses import dataclass

import math
import torch
import torch.nn as nn


@dataclass
class Config:
    samples: int = 32
    latent: int = 8
    batch: int = 48
    rounds: int = 160
    critic_steps: int = 3
    penalty: float = 5.0
    lr: float = 1.5e-3


def pulses(n, samples, g):
    t = torch.linspace(0, 1, samples)
    f = 2 + torch.rand(n, 1, generator=g)
    ph = 2 * math.pi * torch.rand(n, 1, generator=g)
    return torch.sin(2 * math.pi * f * t + ph) * torch.exp(-2 * t)


def mlp(*sizes):
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Linear(a, b), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers[:-1])


class WGAN:
    def __init__(self, cfg):
        self.cfg = cfg
        self.g = torch.Generator().manual_seed(31)
        self.gen = mlp(cfg.latent, 64, 64, cfg.samples)
        self.critic = mlp(cfg.samples, 64, 64, 1)
        self.opt_g = torch.optim.Adam(self.gen.parameters(), lr=cfg.lr, betas=(0.5, 0.9))
        self.opt_c = torch.optim.Adam(self.critic.parameters(), lr=cfg.lr, betas=(0.5, 0.9))
        self.scaler_g = torch.amp.GradScaler("cpu", init_scale=2.0 ** 20)
        self.scaler_c = torch.amp.GradScaler("cpu", init_scale=2.0 ** 20)
        self.skipped = {"g": 0, "c": 0}

    def amp(self, enabled=True):
        return torch.autocast("cpu", dtype=torch.float16, enabled=enabled)

    def fake(self, n):
        with self.amp():
            return self.gen(torch.randn(n, self.cfg.latent, generator=self.g))

    def gradient_penalty(self, real, fake):
        mix = torch.rand(len(real), 1, generator=self.g)
        x = (mix * real + (1 - mix) * fake).requires_grad_()
        with self.amp():
            out = self.critic(x)
        scaled, = torch.autograd.grad(self.scaler_c.scale(out.sum()), x, create_graph=True)
        grad = scaled.float() * (1.0 / self.scaler_c.get_scale())
        return (torch.sqrt(grad.square().sum(1) + 1e-12) - 1).square().mean()

    def apply(self, scaler, opt, loss, name):
        opt.zero_grad()
        scaler.scale(loss).backward()
        before = scaler.get_scale()
        scaler.step(opt)
        scaler.update()
        self.skipped[name] += scaler.get_scale() < before

    def critic_step(self, real):
        fake = self.fake(len(real)).float().detach()
        with self.amp():
            gap = self.critic(fake).float().mean() - self.critic(real).float().mean()
        gp = self.gradient_penalty(real, fake)
        self.apply(self.scaler_c, self.opt_c, gap + self.cfg.penalty * gp, "c")
        return -gap.item(), gp.item()

    def generator_step(self):
        with self.amp():
            loss = -self.critic(self.fake(self.cfg.batch)).float().mean()
        self.apply(self.scaler_g, self.opt_g, loss, "g")

    def spectrum_gap(self, real):
        with torch.no_grad():
            f = torch.fft.rfft(self.fake(len(real)).float()).abs().mean(0)
        return (f - torch.fft.rfft(real).abs().mean(0)).abs().mean().item()


if __name__ == "__main__":
    torch.manual_seed(31)
    cfg = Config()
    gan = WGAN(cfg)
    held = pulses(256, cfg.samples, gan.g)
    for r in range(cfg.rounds):
        for _ in range(cfg.critic_steps):
            w, gp = gan.critic_step(pulses(cfg.batch, cfg.samples, gan.g))
        gan.generator_step()
        if r % 20 == 0 or r == cfg.rounds - 1:
            print(f"round {r:4d} critic gap {w:+.4f} penalty {gp:.4f} spectrum gap {gan.spectrum_gap(held):.4f} "
                  f"scales {gan.scaler_c.get_scale():g}/{gan.scaler_g.get_scale():g} skipped {gan.skipped}")
