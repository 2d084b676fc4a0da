import torch
import torch.nn as nn
import torch.nn.functional as F


def encode(x, levels):
    out = [x]
    for k in range(levels):
        out += [torch.sin(2.0 ** k * x), torch.cos(2.0 ** k * x)]
    return torch.cat(out, -1)


class Field(nn.Module):
    def __init__(self, levels=4, hidden=64):
        super().__init__()
        self.levels = levels
        inp = 2 * (2 * levels + 1)
        self.trunk = nn.Sequential(nn.Linear(inp, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.sigma = nn.Linear(hidden, 1)
        self.color = nn.Linear(hidden, 3)

    def forward(self, pts):
        h = self.trunk(encode(pts, self.levels))
        return F.softplus(self.sigma(h).squeeze(-1)), torch.sigmoid(self.color(h))


class Renderer(nn.Module):
    def __init__(self, field, near=0.0, far=2.0, samples=24):
        super().__init__()
        self.field = field
        self.step = (far - near) / samples
        self.register_buffer("ts", torch.linspace(near, far, samples))

    def forward(self, origin, direction):
        pts = origin[:, None] + self.ts[None, :, None] * direction[:, None]
        sigma, rgb = self.field(pts)
        alpha = 1.0 - torch.exp(-sigma * self.step)
        trans = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1.0 - alpha[:, :-1]], 1), 1)
        weights = alpha * trans
        opacity = weights.sum(-1, keepdim=True)
        color = (weights[..., None] * rgb).sum(1)
        share = weights / (opacity + 1e-8)
        depth = (share * self.ts).sum(-1)
        return color, depth, opacity.squeeze(-1)
