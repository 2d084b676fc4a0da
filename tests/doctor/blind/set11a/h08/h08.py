"""WGAN-GP for 1-channel sprites, with the penalty computed from scaled gradients."""
import argparse

import torch
import torch.nn as nn


class Critic(nn.Module):
    def __init__(self, w=10):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, w, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Conv2d(w, 2 * w, 4, 2, 1), nn.LeakyReLU(0.2),
        )
        self.out = nn.Linear(2 * w * 9, 1)

    def forward(self, x):
        return self.out(self.body(x).flatten(1)).squeeze(1)


class Generator(nn.Module):
    def __init__(self, nz=8, w=16):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(nz, 8 * w), nn.ReLU(), nn.Linear(8 * w, 8 * w), nn.ReLU(), nn.Linear(8 * w, 144), nn.Tanh())

    def forward(self, z):
        return self.net(z).view(-1, 1, 12, 12)


def sprites(n, g):
    img = -0.9 * torch.ones(n, 1, 12, 12)
    for i in range(n):
        y, x = torch.randint(1, 6, (2,), generator=g).tolist()
        img[i, 0, y:y + 5, x:x + 5] = 0.9
    return img


class Trainer:
    def __init__(self, a):
        self.a = a
        self.rng = torch.Generator().manual_seed(a.seed)
        self.C, self.G = Critic(), Generator(a.nz)
        self.opt_c = torch.optim.Adam(self.C.parameters(), lr=a.lr, betas=(0.0, 0.9))
        self.opt_g = torch.optim.Adam(self.G.parameters(), lr=a.lr, betas=(0.0, 0.9))
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 12)

    def z(self):
        return torch.randn(self.a.batch, self.a.nz, generator=self.rng)

    def penalty(self, real, fake):
        eps = torch.rand(len(real), 1, 1, 1, generator=self.rng)
        mix = (eps * real + (1 - eps) * fake).requires_grad_(True)
        with torch.autocast("cpu", dtype=torch.float16):
            score = self.C(mix)
        grad = torch.autograd.grad(self.scaler.scale(score.sum()), mix, create_graph=True)[0]
        grad = grad / self.scaler.get_scale()
        with torch.autocast("cpu", enabled=False):
            norm = (grad.float().flatten(1).pow(2).sum(1) + 1e-12).sqrt()
            return (norm - 1).pow(2).mean(), norm.mean()

    def critic_step(self):
        real = sprites(self.a.batch, self.rng)
        with torch.no_grad():
            fake = self.G(self.z())
        with torch.autocast("cpu", dtype=torch.float16):
            wdist = self.C(real).mean() - self.C(fake).mean()
        gp, norm = self.penalty(real, fake)
        loss = -wdist.float() + self.a.lam * gp
        self.opt_c.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt_c)
        self.scaler.update()
        return wdist.item(), norm.item()

    def generator_step(self):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = -self.C(self.G(self.z())).mean()
        self.opt_g.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt_g)
        self.scaler.update()
        return loss.item()

    def run(self):
        for it in range(1, self.a.iters + 1):
            for _ in range(self.a.n_critic):
                w, norm = self.critic_step()
            g_loss = self.generator_step()
            if it % 8 == 0:
                print(f"it {it} W {w:.4f} |grad| {norm:.3f} G {g_loss:.4f} scale {self.scaler.get_scale():g}")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--iters", type=int, default=40)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--n-critic", type=int, default=3)
    p.add_argument("--nz", type=int, default=8)
    p.add_argument("--lam", type=float, default=10.0)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--seed", type=int, default=0)
    args = p.parse_args()
    torch.manual_seed(args.seed)
    Trainer(args).run()
