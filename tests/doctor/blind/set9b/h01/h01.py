import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Digits(Dataset):
    def __init__(self, n=512, size=16):
        gen = torch.Generator().manual_seed(1)
        yy, xx = torch.meshgrid(torch.linspace(-1, 1, size), torch.linspace(-1, 1, size), indexing="ij")
        r = 0.3 + 0.5 * torch.rand(n, 1, 1, generator=gen)
        img = torch.tanh(8 * (0.15 - ((xx ** 2 + yy ** 2).sqrt() - r).abs()))
        self.x = img.unsqueeze(1)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i]


class Generator(nn.Module):
    def __init__(self, z=16, width=16):
        super().__init__()
        self.fc = nn.Linear(z, 2 * width * 16)
        self.up = nn.Sequential(nn.BatchNorm2d(2 * width), nn.ReLU(),
                                nn.ConvTranspose2d(2 * width, width, 4, 2, 1), nn.BatchNorm2d(width), nn.ReLU(),
                                nn.ConvTranspose2d(width, 1, 4, 2, 1), nn.Tanh())
        self.width = width

    def forward(self, z):
        return self.up(self.fc(z).view(len(z), 2 * self.width, 4, 4))


class Discriminator(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, width, 4, 2, 1), nn.LeakyReLU(0.2),
                                 nn.Conv2d(width, 2 * width, 4, 2, 1), nn.LeakyReLU(0.2),
                                 nn.Flatten(), nn.Linear(32 * width, 1))

    def forward(self, x):
        return self.net(x).squeeze(1)


class GANTrainer:
    def __init__(self, args):
        self.args = args
        self.g, self.d = Generator(args.z), Discriminator()
        self.opt_g = torch.optim.Adam(self.g.parameters(), lr=args.lr, betas=(0.5, 0.999))
        self.opt_d = torch.optim.Adam(self.d.parameters(), lr=args.lr, betas=(0.5, 0.999))
        self.scaler = torch.amp.GradScaler("cpu", growth_interval=60)

    def autocast(self):
        return torch.autocast("cpu", dtype=torch.float16)

    def d_loss(self, real, fake):
        with self.autocast():
            pos, neg = self.d(real), self.d(fake.detach())
            return F.softplus(-pos.float()).mean() + F.softplus(neg.float()).mean()

    def g_loss(self, fake, real):
        with self.autocast():
            adv = F.softplus(-self.d(fake).float()).mean()
        return adv + self.args.match * F.l1_loss(fake.float().mean(0), real.mean(0))

    def step(self, real):
        with self.autocast():
            fake = self.g(torch.randn(len(real), self.args.z))
        self.opt_d.zero_grad()
        loss_d = self.d_loss(real, fake)
        self.scaler.scale(loss_d).backward()
        self.scaler.unscale_(self.opt_d)
        nn.utils.clip_grad_norm_(self.d.parameters(), 5.0)
        self.scaler.step(self.opt_d)

        self.d.requires_grad_(False)
        self.opt_g.zero_grad()
        loss_g = self.g_loss(fake, real)
        self.scaler.scale(loss_g).backward()
        self.scaler.step(self.opt_g)
        self.d.requires_grad_(True)
        self.scaler.update()
        return loss_d.item(), loss_g.item(), (fake.float().mean(0) - real.mean(0)).abs().mean().item()


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=8)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--z", type=int, default=16)
    p.add_argument("--match", type=float, default=2.0)
    p.add_argument("--lr", type=float, default=1e-3)
    args = p.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(Digits(), args.batch_size, shuffle=True, drop_last=True)
    trainer = GANTrainer(args)
    for epoch in range(args.epochs):
        rows = torch.tensor([trainer.step(real) for real in loader]).mean(0).tolist()
        print(f"epoch {epoch} d {rows[0]:.3f} g {rows[1]:.3f} mean gap {rows[2]:.3f} "
              f"scale {trainer.scaler.get_scale():.0f}")
