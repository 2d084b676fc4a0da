import torch.nn as nn
import torch.nn.functional as F


class Generator(nn.Module):
    def __init__(self, z=16, ch=24):
        super().__init__()
        self.fc = nn.Linear(z, ch * 16)
        self.ch = ch
        self.net = nn.Sequential(
            nn.Upsample(scale_factor=2), nn.Conv2d(ch, ch, 3, padding=1), nn.BatchNorm2d(ch), nn.ReLU(),
            nn.Upsample(scale_factor=2), nn.Conv2d(ch, 1, 3, padding=1), nn.Tanh(),
        )

    def forward(self, z):
        return self.net(self.fc(z).view(-1, self.ch, 4, 4))


class Discriminator(nn.Module):
    def __init__(self, ch=24):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, ch, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Conv2d(ch, 2 * ch, 4, 2, 1), nn.LeakyReLU(0.2),
        )
        self.out = nn.Linear(2 * ch * 16, 1)

    def forward(self, x):
        return self.out(self.net(x).flatten(1)).squeeze(1)


def d_loss(real, fake):
    return F.softplus(-real.float()).mean() + F.softplus(fake.float()).mean()


def g_loss(fake):
    return F.softplus(-fake.float()).mean()
