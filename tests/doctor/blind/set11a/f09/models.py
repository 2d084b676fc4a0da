import torch.nn as nn


class Generator(nn.Module):
    def __init__(self, nz=16, ngf=12):
        super().__init__()
        self.net = nn.Sequential(
            nn.ConvTranspose2d(nz, 2 * ngf, 4), nn.BatchNorm2d(2 * ngf), nn.ReLU(True),
            nn.ConvTranspose2d(2 * ngf, ngf, 4, 2, 1), nn.BatchNorm2d(ngf), nn.ReLU(True),
            nn.ConvTranspose2d(ngf, 1, 4, 2, 1), nn.Tanh(),
        )

    def forward(self, z):
        return self.net(z[:, :, None, None])


class Discriminator(nn.Module):
    def __init__(self, ndf=12):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, ndf, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Conv2d(ndf, 2 * ndf, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Flatten(), nn.Linear(2 * ndf * 16, 1),
        )

    def forward(self, x):
        return self.net(x).squeeze(1)
