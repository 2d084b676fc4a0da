"""DCGAN-like networks for 16x16 images."""
from torch import nn


class Generator(nn.Module):
    def __init__(self, z=16, ch=16):
        super().__init__()
        self.net = nn.Sequential(
            nn.ConvTranspose2d(z, ch * 2, 4), nn.BatchNorm2d(ch * 2), nn.ReLU(),
            nn.ConvTranspose2d(ch * 2, ch, 4, 2, 1), nn.BatchNorm2d(ch), nn.ReLU(),
            nn.ConvTranspose2d(ch, 1, 4, 2, 1), nn.Tanh())

    def forward(self, z):
        return self.net(z[:, :, None, None])


class Discriminator(nn.Module):
    def __init__(self, ch=16):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, ch, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Conv2d(ch, ch * 2, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Flatten(), nn.Linear(ch * 2 * 16, 1))

    def forward(self, x):
        return self.net(x).squeeze(1)
