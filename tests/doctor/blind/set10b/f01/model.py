import torch
from torch import nn


class ProductEncoder(nn.Module):
    """Encodes attribute vectors of a product into a metric space."""

    def __init__(self, n_in, width=256, n_out=128):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(n_in, width), nn.ReLU(),
            nn.Linear(width, width), nn.ReLU(),
        )
        self.project = nn.Linear(width, n_out)

    def forward(self, x):
        return self.project(self.body(x))


def pairwise_sq(a, b):
    aa = a.pow(2).sum(1, keepdim=True)
    bb = b.pow(2).sum(1, keepdim=True).t()
    return aa + bb - 2.0 * a @ b.t()


def npairs_margin(z, labels, margin=2e5):
    d = pairwise_sq(z, z).float()
    same = labels[:, None] == labels[None, :]
    eye = torch.eye(len(z), dtype=torch.bool)
    pos = d[same & ~eye]
    neg = torch.relu(margin - d[~same])
    return pos.mean() / margin + neg.mean() / margin


@torch.no_grad()
def recall_at_1(z, labels):
    d = torch.cdist(z.float(), z.float())
    d.fill_diagonal_(float("inf"))
    return (labels[d.argmin(1)] == labels).float().mean().item()
