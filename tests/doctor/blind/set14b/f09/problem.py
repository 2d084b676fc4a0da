import math

import torch
import torch.nn as nn


class FourierMLP(nn.Module):
    """u(x, t) for the damped string; the features keep the boundary values near zero."""

    def __init__(self, modes=4, hidden=40):
        super().__init__()
        self.register_buffer("k", torch.arange(1, modes + 1, dtype=torch.float32))
        self.net = nn.Sequential(nn.Linear(modes + 2, hidden), nn.Tanh(),
                                 nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 1))

    def forward(self, x, t):
        modes = torch.sin(math.pi * x * self.k)
        return x * (1 - x) * self.net(torch.cat([modes, x, t], 1))


def exact(x, t):
    return torch.exp(-0.5 * t) * torch.cos(3.0 * t) * torch.sin(math.pi * x)


def observations(n, g, noise=0.01):
    x, t = torch.rand(n, 1, generator=g), 2 * torch.rand(n, 1, generator=g)
    return x, t, exact(x, t) + noise * torch.randn(n, 1, generator=g)
