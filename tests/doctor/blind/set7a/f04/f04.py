"""Tiny GAN on 8x8 blobs; the discriminator uses a minibatch-stddev feature."""
import torch
import torch.nn as nn
import torch.nn.functional as F

Z = 16


def real_batch(n, gen):
    cy = torch.randint(2, 6, (n,), generator=gen).float()
    cx = torch.randint(2, 6, (n,), generator=gen).float()
    yy, xx = torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="ij")
    d = (yy[None] - cy[:, None, None]) ** 2 + (xx[None] - cx[:, None, None]) ** 2
    return (torch.exp(-d / 4) * 2 - 1).unsqueeze(1)


class MinibatchStd(nn.Module):
    def __init__(self, group=8):
        super().__init__()
        self.group = group

    def forward(self, x):
        n, c, h, w = x.shape
        y = x.float().view(self.group, -1, c, h, w)
        y = y - y.mean(dim=0, keepdim=True)
        y = y.square().mean(dim=0)
        y = y.sqrt()
        y = y.mean(dim=[1, 2, 3], keepdim=True).repeat(self.group, 1, h, w)
        return torch.cat([x, y.to(x.dtype)], dim=1)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(Z, 32 * 2 * 2)
        self.c1 = nn.Conv2d(32, 16, 3, padding=1)
        self.to_img = nn.Conv2d(16, 1, 3, padding=1)
        nn.init.zeros_(self.to_img.weight)
        nn.init.zeros_(self.to_img.bias)

    def forward(self, z):
        x = F.relu(self.fc(z)).view(-1, 32, 2, 2)
        x = F.relu(self.c1(F.interpolate(x, scale_factor=2.0)))
        return torch.tanh(self.to_img(F.interpolate(x, scale_factor=2.0)))


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(1, 16, 3, stride=2, padding=1)
        self.std = MinibatchStd()
        self.c2 = nn.Conv2d(17, 32, 3, stride=2, padding=1)
        self.out = nn.Linear(32 * 2 * 2, 1)

    def forward(self, x):
        x = F.leaky_relu(self.c1(x), 0.2)
        x = self.std(x)
        x = F.leaky_relu(self.c2(x), 0.2)
        return self.out(x.flatten(1))


def main(steps=60, n=32):
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    G, D = Generator(), Discriminator()
    og = torch.optim.Adam(G.parameters(), lr=2e-3, betas=(0.5, 0.99))
    od = torch.optim.Adam(D.parameters(), lr=1e-3, betas=(0.5, 0.99))
    for it in range(steps):
        x = real_batch(n, gen)
        z = torch.randn(n, Z, generator=gen)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            with torch.no_grad():
                fake = G(z)
            d_loss = F.softplus(-D(x).float()).mean() + F.softplus(D(fake).float()).mean()
        od.zero_grad()
        d_loss.backward()
        od.step()

        z = torch.randn(n, Z, generator=gen)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            g_loss = F.softplus(-D(G(z)).float()).mean()
        og.zero_grad()
        g_loss.backward()
        og.step()
        if it % 10 == 0 or it < 4:
            print(f"it {it:3d} d {d_loss.item():.4f} g {g_loss.item():.4f}")


if __name__ == "__main__":
    main()
