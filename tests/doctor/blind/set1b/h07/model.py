import torch
import torch.nn as nn


class Forecaster(nn.Module):
    def __init__(self, window=48, horizon=8, dim=64):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(window, dim), nn.GELU(), nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, horizon))

    def forward(self, x):
        level = x[:, -1:].float()
        spread = x.float().std(dim=1, keepdim=True).clamp(min=1e-3)
        z = (x.float() - level) / spread
        return self.net(z).float() * spread + level
