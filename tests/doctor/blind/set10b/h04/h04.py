"""GAN for a table of two correlated numeric columns and a category."""
import argparse
import logging
import math

import torch
import torch.nn.functional as F
from torch import nn

log = logging.getLogger("tablegan")


def real_rows(n, g):
    kind = torch.randint(0, 3, (n,), generator=g)
    angle = kind.float() * 2 * math.pi / 3
    a = torch.cos(angle) + 0.15 * torch.randn(n, generator=g)
    b = torch.sin(angle) + 0.5 * a + 0.15 * torch.randn(n, generator=g)
    return torch.cat([a[:, None], b[:, None], F.one_hot(kind, 3).float()], dim=1)


class Generator(nn.Module):
    def __init__(self, noise, width=64):
        super().__init__()
        self.noise = noise
        self.net = nn.Sequential(nn.Linear(noise, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
                                 nn.Linear(width, 5))

    def forward(self, n):
        out = self.net(torch.randn(n, self.noise))
        return torch.cat([out[:, :2], torch.softmax(out[:, 2:] * 2, dim=-1)], dim=1)


class Critic(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(5, width), nn.LeakyReLU(0.2), nn.Linear(width, width),
                                 nn.LeakyReLU(0.2), nn.Linear(width, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)


def moments_gap(gen, real):
    with torch.no_grad():
        fake = gen(2000)
    return ((fake.mean(0) - real.mean(0)).abs().mean() + (fake[:, :2].std(0) - real[:, :2].std(0)).abs().mean()).item()


def main():
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=1000)
    ap.add_argument("--batch", type=int, default=96)
    args = ap.parse_args()
    torch.manual_seed(5)
    data_rng = torch.Generator().manual_seed(5)
    reference = real_rows(2000, torch.Generator().manual_seed(6))
    gen, critic = Generator(8), Critic()
    opt_g = torch.optim.Adam(gen.parameters(), lr=5e-4, betas=(0.5, 0.99))
    opt_d = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.99))
    scaler = torch.amp.GradScaler("cpu")
    log.info("gap at start %.4f", moments_gap(gen, reference))
    for step in range(1, args.steps + 1):
        real = real_rows(args.batch, data_rng)
        with torch.autocast("cpu", dtype=torch.float16):
            fake = gen(args.batch)
            loss_d = F.softplus(-critic(real)).mean() + F.softplus(critic(fake.detach())).mean()
        opt_d.zero_grad(set_to_none=True)
        scaler.scale(loss_d).backward()
        scaler.step(opt_d)

        with torch.autocast("cpu", dtype=torch.float16):
            loss_g = F.softplus(-critic(fake)).mean()
        opt_g.zero_grad(set_to_none=True)
        scaler.scale(loss_g).backward()
        scaler.step(opt_g)
        scaler.update()
        if step % 200 == 0:
            log.info("step %d d %.3f g %.3f gap %.4f scale %g", step, loss_d.item(), loss_g.item(),
                     moments_gap(gen, reference), scaler.get_scale())


if __name__ == "__main__":
    main()
