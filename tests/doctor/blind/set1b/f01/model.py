import torch
import torch.nn as nn


class PointEncoder(nn.Module):
    def __init__(self, in_dim=3, width=64):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(in_dim, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.Softplus(),
        )

    def forward(self, pts):
        return self.net(pts)


class DeepSets(nn.Module):
    """phi / rho architecture of Zaheer et al. for sets of points."""

    def __init__(self, in_dim=3, width=32, classes=4):
        super().__init__()
        self.phi = PointEncoder(in_dim, width)
        self.norm = nn.LayerNorm(width)
        self.rho = nn.Sequential(
            nn.Linear(width, width),
            nn.GELU(),
            nn.Linear(width, classes),
        )

    def forward(self, pts):
        feats = self.phi(pts)
        pooled = feats.sum(dim=1)
        pooled = self.norm(pooled)
        return self.rho(pooled)
