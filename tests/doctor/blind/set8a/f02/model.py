import torch
import torch.nn as nn
import torch.nn.functional as F


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        ms = x.pow(2).mean(-1, keepdim=True)
        return x * torch.rsqrt(ms + self.eps) * self.weight


class Expert(nn.Module):
    def __init__(self, dim, mult=2):
        super().__init__()
        self.gate = nn.Linear(dim, dim * mult, bias=False)
        self.up = nn.Linear(dim, dim * mult, bias=False)
        self.down = nn.Linear(dim * mult, dim, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class PriceMixer(nn.Module):
    def __init__(self, n_features, dim=64, depth=2, horizon=4):
        super().__init__()
        self.embed = nn.Linear(n_features, dim)
        self.norms = nn.ModuleList(RMSNorm(dim) for _ in range(depth))
        self.blocks = nn.ModuleList(Expert(dim) for _ in range(depth))
        self.final = RMSNorm(dim)
        self.head = nn.Linear(dim, horizon)

    def forward(self, x):
        h = self.embed(x)
        for norm, block in zip(self.norms, self.blocks):
            h = h + block(norm(h))
        return self.head(self.final(h).mean(1))
