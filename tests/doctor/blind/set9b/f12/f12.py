import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def ring(n, seed):
    gen = torch.Generator().manual_seed(seed)
    mode = torch.randint(0, 8, (n,), generator=gen)
    angle = mode.float() * (2 * torch.pi / 8)
    pts = torch.stack([angle.cos(), angle.sin()], 1)
    return TensorDataset(2.0 * pts + 0.08 * torch.randn(n, 2, generator=gen))


def mlp(cin, cout, width):
    return nn.Sequential(nn.Linear(cin, width), nn.LeakyReLU(0.2), nn.Linear(width, width), nn.LeakyReLU(0.2),
                         nn.Linear(width, cout))


class WGAN:
    def __init__(self, args):
        self.args = args
        self.gen = mlp(args.latent, 2, args.width)
        self.critic = mlp(2, 1, args.width)
        self.opt_g = torch.optim.Adam(self.gen.parameters(), lr=args.lr, betas=(0.5, 0.9))
        self.opt_d = torch.optim.Adam(self.critic.parameters(), lr=args.lr, betas=(0.5, 0.9))
        self.scaler_g = torch.amp.GradScaler("cpu", init_scale=512.0)
        self.scaler_d = torch.amp.GradScaler("cpu", init_scale=512.0)
        self.amp = torch.autocast("cpu", dtype=torch.float16)

    def sample(self, n):
        return self.gen(torch.randn(n, self.args.latent)).float()

    def penalty(self, real, fake):
        mix = torch.rand(real.shape[0], 1)
        point = (mix * real + (1 - mix) * fake).requires_grad_(True)
        with self.amp:
            score = self.critic(point)
        slope, = torch.autograd.grad(self.scaler_d.scale(score.float().sum()), point, create_graph=True)
        return (slope.float().norm(2, dim=1) - 1).square().mean()

    def critic_step(self, real):
        with torch.no_grad(), self.amp:
            fake = self.sample(real.shape[0])
        gp = self.penalty(real, fake)
        with self.amp:
            gap = self.critic(fake).float().mean() - self.critic(real).float().mean()
        loss = gap + self.args.gp_weight * gp
        self.opt_d.zero_grad()
        self.scaler_d.scale(loss).backward()
        self.scaler_d.step(self.opt_d)
        self.scaler_d.update()
        return -gap.item(), gp.item()

    def generator_step(self):
        with self.amp:
            loss = -self.critic(self.sample(self.args.batch_size)).float().mean()
        self.opt_g.zero_grad()
        self.scaler_g.scale(loss).backward()
        self.scaler_g.step(self.opt_g)
        self.scaler_g.update()
        return loss.item()

    @torch.no_grad()
    def spread(self):
        x = self.sample(512)
        return (x.norm(dim=1) - 2.0).abs().mean().item()

    def fit(self, loader):
        for epoch in range(self.args.epochs):
            w, gp = 0.0, 0.0
            for i, (real,) in enumerate(loader):
                a, b = self.critic_step(real)
                w, gp = w + a, gp + b
                if (i + 1) % self.args.n_critic == 0:
                    self.generator_step()
            n = len(loader)
            print(f"epoch {epoch} wasserstein {w / n:.4f} gp {gp / n:.4f} radius error {self.spread():.4f}")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=8)
    p.add_argument("--batch-size", type=int, default=64)
    p.add_argument("--latent", type=int, default=8)
    p.add_argument("--width", type=int, default=64)
    p.add_argument("--n-critic", type=int, default=3)
    p.add_argument("--gp-weight", type=float, default=1.0)
    p.add_argument("--lr", type=float, default=1e-3)
    args = p.parse_args()
    torch.manual_seed(8)
    WGAN(args).fit(DataLoader(ring(2048, 1), args.batch_size, shuffle=True, drop_last=True))


if __name__ == "__main__":
    main()
