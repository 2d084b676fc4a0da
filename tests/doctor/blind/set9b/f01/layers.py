import torch
from torch import nn


def scatter_sum(values, index, size):
    out = values.new_zeros(size, values.shape[-1])
    return out.index_add_(0, index, values)


class GatedConv(nn.Module):
    def __init__(self, dim, eps=1e-8):
        super().__init__()
        self.A = nn.Linear(dim, dim)
        self.B = nn.Linear(dim, dim)
        self.D = nn.Linear(dim, dim)
        self.E = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)
        self.eps = eps

    def forward(self, h, src, dst):
        gate = torch.sigmoid(self.D(h)[src] + self.E(h)[dst])
        message = gate * self.B(h)[src]
        num = scatter_sum(message, dst, h.shape[0])
        den = scatter_sum(gate, dst, h.shape[0])
        update = self.A(h) + num / (den + self.eps)
        return h + torch.relu(self.norm(update))


class GatedGraphNet(nn.Module):
    def __init__(self, in_dim, hidden, depth):
        super().__init__()
        self.embed = nn.Linear(in_dim, hidden)
        self.convs = nn.ModuleList(GatedConv(hidden) for _ in range(depth))
        self.readout = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, x, src, dst, graph, num_graphs):
        h = self.embed(x)
        for conv in self.convs:
            h = conv(h, src, dst)
        pooled = scatter_sum(h, graph, num_graphs)
        sizes = torch.bincount(graph, minlength=num_graphs).clamp(min=1)
        return self.readout(pooled / sizes.unsqueeze(-1))
