import torch
import torch.nn as nn


class Gen(nn.Module):
    def __init__(self, z=16, d=64):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(z, d), nn.LeakyReLU(0.2), nn.Linear(d, d), nn.LeakyReLU(0.2), nn.Linear(d, 2))

    def forward(self, z):
        return self.net(z)


class Critic(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, d), nn.LeakyReLU(0.2), nn.Linear(d, d), nn.LeakyReLU(0.2), nn.Linear(d, 1))

    def forward(self, x):
        return self.net(x).squeeze(1)


def gradient_penalty(critic, real, fake, scaler):
    a = torch.rand(len(real), 1)
    x = (a * real + (1 - a) * fake.float()).requires_grad_(True)
    with torch.autocast("cpu", dtype=torch.float16):
        out = critic(x)
    g = torch.autograd.grad(scaler.scale(out.float().sum()), x, create_graph=True)[0]
    g = g / scaler.get_scale()
    with torch.autocast("cpu", enabled=False):
        return (g.float().norm(dim=1) - 1).square().mean()
