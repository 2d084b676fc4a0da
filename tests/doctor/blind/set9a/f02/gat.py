import torch
import torch.nn as nn
import torch.nn.functional as F


class GATLayer(nn.Module):
    def __init__(self, din, dout, heads, concat=True):
        super().__init__()
        self.heads, self.dout, self.concat = heads, dout, concat
        self.lin = nn.Linear(din, heads * dout, bias=False)
        self.src = nn.Parameter(torch.randn(heads, dout) * 0.1)
        self.dst = nn.Parameter(torch.randn(heads, dout) * 0.1)

    def forward(self, x, adj):
        n = x.size(0)
        h = self.lin(x).view(n, self.heads, self.dout)
        a_src = (h * self.src).sum(-1)
        a_dst = (h * self.dst).sum(-1)
        score = F.leaky_relu(a_src[:, None] + a_dst[None, :], 0.2)
        score = score.masked_fill(~adj[..., None], float("-inf"))
        att = F.softmax(score, dim=1)
        att = F.dropout(att, 0.1, self.training)
        out = torch.einsum("ijh,jhd->ihd", att.to(h.dtype), h)
        return out.flatten(1) if self.concat else out.mean(1)


class GAT(nn.Module):
    def __init__(self, din, hidden, classes, heads=4):
        super().__init__()
        self.first = GATLayer(din, hidden, heads)
        self.norm = nn.LayerNorm(hidden * heads)
        self.second = GATLayer(hidden * heads, classes, 1, concat=False)

    def forward(self, x, adj):
        x = F.elu(self.norm(self.first(x, adj)))
        return self.second(x, adj)
