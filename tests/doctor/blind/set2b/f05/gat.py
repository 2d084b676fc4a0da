import torch
import torch.nn as nn
import torch.nn.functional as F


class DenseGATLayer(nn.Module):
    def __init__(self, d_in, d_out, heads, concat=True):
        super().__init__()
        self.h, self.d, self.concat = heads, d_out, concat
        self.lin = nn.Linear(d_in, heads * d_out, bias=False)
        self.a_src = nn.Parameter(torch.randn(heads, d_out) / d_out ** 0.5)
        self.a_dst = nn.Parameter(torch.randn(heads, d_out) / d_out ** 0.5)
        self.skip = nn.Linear(d_in, heads * d_out if concat else d_out)

    def forward(self, x, adj):
        n = x.size(0)
        z = self.lin(x).view(n, self.h, self.d)
        s = torch.einsum("nhd,hd->hn", z, self.a_src)
        t = torch.einsum("nhd,hd->hn", z, self.a_dst)
        e = F.leaky_relu(t.unsqueeze(2) + s.unsqueeze(1), 0.2)
        e = e.masked_fill(~adj, float("-inf"))
        att = torch.softmax(e, dim=-1)
        out = torch.einsum("hij,jhd->ihd", att, z)
        out = out.flatten(1) if self.concat else out.mean(1)
        return out + self.skip(x)


class GAT(nn.Module):
    def __init__(self, d_in, d_hid, n_cls, heads=4):
        super().__init__()
        self.l1 = DenseGATLayer(d_in, d_hid, heads)
        self.l2 = DenseGATLayer(heads * d_hid, n_cls, 1, concat=False)

    def forward(self, x, adj):
        return self.l2(F.elu(self.l1(x, adj)), adj)
