import torch
import torch.nn as nn


class SumConv(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.msg = nn.Linear(d_in, d_out)
        self.own = nn.Linear(d_in, d_out)
        self.norm = nn.LayerNorm(d_out)

    def forward(self, x, src, dst, n_dst):
        m = torch.relu(self.msg(x))
        agg = m.new_zeros(n_dst, m.size(1)).index_add_(0, dst, m[src])
        h = self.own(x[:n_dst]) + agg
        return torch.relu(self.norm(h))


class SumSAGE(nn.Module):
    def __init__(self, d_in, hidden, n_cls):
        super().__init__()
        self.conv1 = SumConv(d_in, hidden)
        self.conv2 = SumConv(hidden, hidden)
        self.cls = nn.Linear(hidden, n_cls)

    def forward(self, x, blocks):
        x = self.conv1(x, *blocks[0])
        x = self.conv2(x, *blocks[1])
        return self.cls(x)
