"""Adversarial model of short sequences; each player has its own scaler."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def waves(n, length, seed):
    g = torch.Generator().manual_seed(seed)
    t = torch.linspace(0, 6.28, length)
    f = torch.randint(1, 3, (n, 1), generator=g)
    p = torch.rand(n, 1, generator=g) * 0.6
    return torch.sin(f * t + p)[:, None]


class Generator(nn.Module):
    def __init__(self, z, length, ch=24):
        super().__init__()
        self.ch, self.quarter = ch, length // 4
        self.fc = nn.Linear(z, ch * self.quarter)
        self.up1 = nn.ConvTranspose1d(ch, ch, 4, 2, 1)
        self.up2 = nn.ConvTranspose1d(ch, 1, 4, 2, 1)

    def forward(self, z):
        h = F.relu(self.fc(z)).view(len(z), self.ch, self.quarter)
        return torch.tanh(self.up2(F.relu(self.up1(h))))


class Critic(nn.Module):
    def __init__(self, length, ch=24):
        super().__init__()
        self.c1 = nn.Conv1d(1, ch, 5, 2, 2)
        self.c2 = nn.Conv1d(ch, ch * 2, 5, 2, 2)
        self.fc = nn.Linear(ch * 2 * (length // 4), 1)

    def forward(self, x):
        h = F.leaky_relu(self.c1(x), 0.2)
        feat = F.leaky_relu(self.c2(h), 0.2)
        return self.fc(feat.flatten(1)).squeeze(-1), feat


class Player:
    def __init__(self, net, lr, init_scale):
        self.net = net
        self.opt = torch.optim.Adam(net.parameters(), lr=lr, betas=(0.5, 0.9))
        self.scaler = torch.amp.GradScaler("cpu", init_scale=init_scale, growth_interval=100)
        self.skipped = 0

    def learn(self, loss):
        self.opt.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        before = self.scaler.get_scale()
        self.scaler.step(self.opt)
        self.scaler.update()
        self.skipped += self.scaler.get_scale() < before


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=12)
    p.add_argument("--length", type=int, default=32)
    p.add_argument("--z", type=int, default=16)
    p.add_argument("--match", type=float, default=5.0)
    args = p.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(waves(1024, args.length, 1)), 64, shuffle=True, drop_last=True)
    gen = Player(Generator(args.z, args.length), 1e-3, 2.0 ** 26)
    critic = Player(Critic(args.length), 5e-4, 2.0 ** 26)
    for epoch in range(args.epochs):
        sums = torch.zeros(3)
        for (real,) in loader:
            z = torch.randn(len(real), args.z)
            with torch.autocast("cpu", dtype=torch.float16):
                with torch.no_grad():
                    fake = gen.net(z)
                r, _ = critic.net(real)
                f, _ = critic.net(fake)
                d_loss = F.softplus(-r.float()).mean() + F.softplus(f.float()).mean()
            critic.learn(d_loss)
            with torch.autocast("cpu", dtype=torch.float16):
                fake = gen.net(z)
                f, feat_f = critic.net(fake)
                with torch.no_grad():
                    _, feat_r = critic.net(real)
                match = F.l1_loss(feat_f.float().mean(0), feat_r.float().mean(0))
                g_loss = F.softplus(-f.float()).mean() + args.match * match
            gen.learn(g_loss)
            sums += torch.stack([d_loss.detach(), g_loss.detach(), match.detach()])
        d, g, m = (sums / len(loader)).tolist()
        print(f"{epoch:2d} D {d:.4f} G {g:.4f} match {m:.4f} "
              f"scales {critic.scaler.get_scale():g}/{gen.scaler.get_scale():g} skipped {critic.skipped}/{gen.skipped}")


if __name__ == "__main__":
    main()
