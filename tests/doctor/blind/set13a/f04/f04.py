"""Coordinate network that fits a tone-mapped (sRGB) photograph from linear radiance."""
import math
import torch
from torch import nn


def linear_to_srgb(c):
    low = 12.92 * c
    high = 1.055 * c.pow(1 / 2.4) - 0.055
    return torch.where(c <= 0.0031308, low, high)


class FourierFeatures(nn.Module):
    def __init__(self, n, sigma):
        super().__init__()
        self.register_buffer("B", torch.randn(2, n) * sigma)

    def forward(self, xy):
        p = 2 * math.pi * xy @ self.B
        return torch.cat([p.sin(), p.cos()], dim=-1)


class RadianceField(nn.Module):
    def __init__(self, n=32, width=64):
        super().__init__()
        self.enc = FourierFeatures(n, 2.0)
        self.mlp = nn.Sequential(
            nn.Linear(2 * n, width), nn.ReLU(),
            nn.Linear(width, width), nn.ReLU(),
            nn.Linear(width, 3))

    def forward(self, xy):
        return self.mlp(self.enc(xy)) + 0.3


def photograph(size=48):
    t = torch.linspace(0, 1, size)
    y, x = torch.meshgrid(t, t, indexing="ij")
    r = 0.55 + 0.4 * torch.sin(9 * x) * torch.cos(5 * y)
    g = 0.5 + 0.4 * torch.cos(7 * x * y)
    b = (x + y) / 2
    img = torch.stack([r, g, b], -1).clamp(0.02, 1)
    img[size // 3: size // 2, size // 4: size // 2] = 0.04
    return torch.stack([x, y], -1).view(-1, 2), img.view(-1, 3)


def psnr(mse):
    return -10.0 * math.log10(mse) if mse > 0 else float("nan")


def run(iters=120, batch=512, lr=5e-3):
    torch.manual_seed(1)
    xy, rgb = photograph()
    field = RadianceField()
    opt = torch.optim.Adam(field.parameters(), lr=lr, betas=(0.9, 0.99))
    decay = torch.optim.lr_scheduler.ExponentialLR(opt, 0.99)
    for i in range(iters):
        pick = torch.randint(0, xy.shape[0], (batch,))
        radiance = field(xy[pick])
        shown = linear_to_srgb(radiance)
        loss = (shown - rgb[pick]).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        decay.step()
        if i % 20 == 0 or i == iters - 1:
            with torch.no_grad():
                full = linear_to_srgb(field(xy))
                print(f"{i:4d}  train {loss.item():.5f}  psnr {psnr((full - rgb).square().mean().item()):.2f} dB")


run()
