import torch
import torch.nn as nn


def mlp(i, h, o, act):
    return nn.Sequential(nn.Linear(i, h), act(), nn.Linear(h, h), act(), nn.Linear(h, o))


class Generator(nn.Module):
    def __init__(self, z=8, classes=8, h=64):
        super().__init__()
        self.cls = nn.Embedding(classes, 8)
        self.net = mlp(z + 8, h, 2, lambda: nn.LeakyReLU(0.1))

    def forward(self, z, y):
        return self.net(torch.cat([z, self.cls(y)], 1))


class Discriminator(nn.Module):
    def __init__(self, classes=8, h=64):
        super().__init__()
        self.cls = nn.Embedding(classes, 8)
        self.net = mlp(2 + 8, h, 1, lambda: nn.LeakyReLU(0.2))

    def forward(self, x, y):
        return self.net(torch.cat([x, self.cls(y)], 1)).squeeze(1)
