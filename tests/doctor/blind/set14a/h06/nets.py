import torch
import torch.nn as nn
from torch.nn.utils.parametrizations import spectral_norm


def sn(m):
    return spectral_norm(m)


class CondGenerator(nn.Module):
    def __init__(self, z=8, classes=3, c=16):
        super().__init__()
        self.emb = nn.Embedding(classes, z)
        self.fc = nn.Linear(2 * z, c * 9)
        self.net = nn.Sequential(
            nn.ReLU(), nn.ConvTranspose2d(c, c, 4, 2, 1), nn.BatchNorm2d(c), nn.ReLU(), nn.ConvTranspose2d(c, 1, 4, 2, 1))
        self.style = nn.Linear(z, c)

    def forward(self, z, y):
        h = self.fc(torch.cat([z, self.emb(y)], 1))
        return torch.tanh(self.net(h.view(len(z), -1, 3, 3)))


class ProjectionDiscriminator(nn.Module):
    def __init__(self, classes=3, c=16):
        super().__init__()
        self.body = nn.Sequential(
            sn(nn.Conv2d(1, c, 4, 2, 1)), nn.LeakyReLU(0.2), sn(nn.Conv2d(c, 2 * c, 4, 2, 1)), nn.LeakyReLU(0.2))
        self.out, self.emb = sn(nn.Linear(2 * c, 1)), nn.Embedding(classes, 2 * c)

    def forward(self, x, y):
        h = self.body(x).sum((2, 3))
        return self.out(h)[:, 0] + (self.emb(y) * h).sum(1)
