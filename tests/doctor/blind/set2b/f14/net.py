import torch
import torch.nn as nn
import torch.nn.functional as F


class MessagePassing(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.edge = nn.Sequential(nn.Linear(2 * d, d), nn.SiLU(), nn.Linear(d, d))
        self.node = nn.Sequential(nn.Linear(2 * d, d), nn.SiLU(), nn.Linear(d, d))
        self.ln = nn.LayerNorm(d)

    def forward(self, h, src, dst):
        m = self.edge(torch.cat([h[src], h[dst]], -1)).float()
        agg = torch.zeros(h.size(0), m.size(1)).index_add(0, dst, m)
        return self.ln(h + self.node(torch.cat([h, agg], -1)))


class CountNet(nn.Module):
    """Event counts of a region from the regions around it."""

    def __init__(self, d_in, d=48, depth=3, d_map=4):
        super().__init__()
        self.inp = nn.Linear(d_in, d)
        self.mp = nn.ModuleList(MessagePassing(d) for _ in range(depth))
        self.coord = nn.Linear(d, d_map)
        self.value = nn.Linear(d, 1)

    def forward(self, x, src, dst):
        h = self.inp(x)
        for layer in self.mp:
            h = layer(h, src, dst)
        c = self.coord(h).float()
        gap = (c[src] - c[dst]).pow(2).sum(-1).sqrt()
        flow = torch.exp(-gap) * self.value(h).float().squeeze(-1)[src]
        z = torch.zeros(x.size(0)).index_add(0, dst, flow)
        return F.softplus(z)


def poisson_deviance(rate, count):
    return 2 * (rate - count * torch.log(rate + 1e-4)).mean()
