import argparse
import itertools
import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def blobs(n, size=16, seed=0):
    g = torch.Generator().manual_seed(seed)
    yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    c = 4 + 8 * torch.rand(n, 2, generator=g)
    r = 1.5 + 2 * torch.rand(n, 1, 1, generator=g)
    d = (yy - c[:, 0].view(-1, 1, 1)) ** 2 + (xx - c[:, 1].view(-1, 1, 1)) ** 2
    img = torch.exp(-d / (2 * r * r)) * 1.6 - 0.8
    return (img + 0.1 * torch.randn(n, size, size, generator=g)).unsqueeze(1)


class EqualLinear(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(o, i))
        self.bias = nn.Parameter(torch.zeros(o))
        self.scale = i ** -0.5

    def forward(self, x):
        return F.linear(x, self.weight * self.scale, self.bias)


class EqualConv(nn.Module):
    def __init__(self, i, o, k=3, down=False):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(o, i, k, k))
        self.bias = nn.Parameter(torch.zeros(o))
        self.scale, self.k, self.down = (i * k * k) ** -0.5, k, down

    def forward(self, x):
        return F.conv2d(x, self.weight * self.scale, self.bias, stride=2 if self.down else 1, padding=self.k // 2)


class MinibatchStd(nn.Module):
    def __init__(self, group=4):
        super().__init__()
        self.group = group

    def forward(self, x):
        n, c, h, w = x.shape
        g = min(self.group, n)
        y = x.float().view(g, -1, c, h, w)
        y = y - y.mean(0, keepdim=True)
        y = y.square().mean(0).sqrt()
        y = y.mean([1, 2, 3]).view(-1, 1, 1, 1)
        return torch.cat([x, y.to(x.dtype).repeat(g, 1, h, w)], 1)


class Generator(nn.Module):
    def __init__(self, z=32, ch=24):
        super().__init__()
        self.fc = EqualLinear(z, ch * 16)
        self.c1, self.c2 = EqualConv(ch, ch), EqualConv(ch, ch)
        self.rgb = EqualConv(ch, 1, 1)
        self.ch = ch

    def forward(self, z):
        x = F.leaky_relu(self.fc(z), 0.2).view(-1, self.ch, 4, 4)
        for conv in (self.c1, self.c2):
            x = F.leaky_relu(conv(F.interpolate(x, scale_factor=2)), 0.2)
        return self.rgb(x)


class Discriminator(nn.Module):
    def __init__(self, ch=24):
        super().__init__()
        self.inp = EqualConv(1, ch, 1)
        self.c1, self.c2 = EqualConv(ch, ch, down=True), EqualConv(ch, ch, down=True)
        self.std = MinibatchStd()
        self.c3 = EqualConv(ch + 1, ch)
        self.out = EqualLinear(ch * 16, 1)

    def forward(self, x):
        x = self.inp(x)
        x = F.leaky_relu(self.c1(x), 0.2)
        x = F.leaky_relu(self.c2(x), 0.2)
        x = F.leaky_relu(self.c3(self.std(x)), 0.2)
        return self.out(x.flatten(1))


class Ema:
    def __init__(self, net, decay=0.98):
        self.decay = decay
        self.shadow = {k: v.detach().clone() for k, v in net.state_dict().items()}

    def update(self, net):
        for k, v in net.state_dict().items():
            self.shadow[k].mul_(self.decay).add_(v, alpha=1 - self.decay)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--n", type=int, default=481)
    ap.add_argument("--bs", type=int, default=16)
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--fp32", action="store_true")
    args = ap.parse_args()
    torch.manual_seed(0)

    loader = DataLoader(TensorDataset(blobs(args.n)), batch_size=args.bs, shuffle=True)
    G, D = Generator(), Discriminator()
    ema = Ema(G)
    opt_g = torch.optim.Adam(G.parameters(), lr=2e-3, betas=(0.0, 0.99))
    opt_d = torch.optim.Adam(D.parameters(), lr=2e-3, betas=(0.0, 0.99))
    step = itertools.count()

    with tempfile.TemporaryDirectory() as out:
        for epoch in range(args.epochs):
            for (real,) in loader:
                i = next(step)
                z = torch.randn(real.size(0), 32)
                with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not args.fp32):
                    fake = G(z)
                    d_loss = F.softplus(D(fake.detach())).mean() + F.softplus(-D(real)).mean()
                opt_d.zero_grad()
                d_loss.backward()
                opt_d.step()

                with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not args.fp32):
                    g_loss = F.softplus(-D(G(z))).mean()
                opt_g.zero_grad()
                g_loss.backward()
                opt_g.step()
                ema.update(G)
                if i % 6 == 0:
                    print(f"step {i:3d}  D {d_loss.item():.4f}  G {g_loss.item():.4f}")
            torch.save(ema.shadow, os.path.join(out, f"ema_{epoch}.pt"))
            print(f"epoch {epoch} saved, image range "
                  f"{fake.min().item():.2f} .. {fake.max().item():.2f}")


if __name__ == "__main__":
    main()
