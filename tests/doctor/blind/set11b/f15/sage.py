import torch
import torch.nn.functional as F
from torch import nn


class SumConv(nn.Module):
    """x_i <- W1 x_i + W2 sum_j x_j (sum keeps the size of the neighbourhood)."""

    def __init__(self, i, o):
        super().__init__()
        self.own, self.nbr = nn.Linear(i, o), nn.Linear(i, o, bias=False)

    def forward(self, x, adj):
        total = torch.matmul(adj, x)
        return self.own(x) + self.nbr(total)


class SageNet(nn.Module):
    def __init__(self, feats, hidden, classes):
        super().__init__()
        self.c1, self.c2 = SumConv(feats, hidden), SumConv(hidden, hidden)
        self.n1, self.n2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.out = nn.Linear(hidden, classes)

    def forward(self, x, adj):
        h = F.relu(self.n1(self.c1(x, adj)))
        h = F.relu(self.n2(self.c2(h, adj)))
        return self.out(h)
