import torch
import torch.nn as nn


class GINLayer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.eps = nn.Parameter(torch.zeros(1))
        self.mlp = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, d))
        self.bn = nn.BatchNorm1d(d)

    def forward(self, h, edge):
        agg = torch.zeros_like(h).index_add(0, edge[1], h[edge[0]])
        return torch.relu(self.bn(self.mlp((1 + self.eps) * h + agg)))


class GIN(nn.Module):
    def __init__(self, d_in, n_tasks, d=48, depth=3):
        super().__init__()
        self.inp = nn.Linear(d_in, d)
        self.layers = nn.ModuleList(GINLayer(d) for _ in range(depth))
        self.head = nn.Linear(2 * d, n_tasks)

    def forward(self, x, edge, owner, n):
        h = self.inp(x)
        for layer in self.layers:
            h = layer(h, edge)
        h = h.float()
        idx = owner[:, None].expand_as(h)
        top = h.new_full((n, h.size(1)), float("-inf")).scatter_reduce(0, idx, h, "amax")
        cnt = torch.bincount(owner, minlength=n)[:, None]
        avg = h.new_zeros(n, h.size(1)).index_add(0, owner, h) / cnt
        return self.head(torch.cat([top, avg], 1))
