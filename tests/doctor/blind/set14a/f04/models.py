import torch
import torch.nn as nn


class MinibatchStd(nn.Module):
    """Appends one channel with the average deviation inside a group of samples (ProGAN)."""

    def __init__(self, group=4):
        super().__init__()
        self.group = group

    def forward(self, x):
        b, c, h, w = x.shape
        g = min(self.group, b)
        y = x.reshape(g, b // g, c, h, w)
        y = y - y.mean(dim=0, keepdim=True)
        y = y.square().mean(dim=0).sqrt()
        y = y.mean(dim=(1, 2, 3), keepdim=True).repeat(g, 1, h, w)
        return torch.cat([x, y], dim=1)


class Generator(nn.Module):
    def __init__(self, zdim=16):
        super().__init__()
        self.fc = nn.Linear(zdim, 32 * 16)
        self.up = nn.Sequential(
            nn.ReLU(), nn.Upsample(scale_factor=2), nn.Conv2d(32, 16, 3, padding=1),
            nn.ReLU(), nn.Upsample(scale_factor=2))
        self.rgb = nn.Conv2d(16, 1, 3, padding=1)
        nn.init.zeros_(self.rgb.weight)
        nn.init.zeros_(self.rgb.bias)

    def forward(self, z):
        return torch.tanh(self.rgb(self.up(self.fc(z).view(-1, 32, 4, 4))))


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(16, 32, 4, 2, 1), nn.LeakyReLU(0.2))
        self.mbstd = MinibatchStd()
        self.head = nn.Sequential(nn.Conv2d(33, 32, 3, padding=1), nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(512, 1))

    def forward(self, x):
        return self.head(self.mbstd(self.features(x)))[:, 0]
