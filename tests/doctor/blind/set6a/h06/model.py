import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint


class Adapter(nn.Module):
    def __init__(self, dim, rank=4):
        super().__init__()
        self.down = nn.Linear(dim, rank, bias=False)
        self.up = nn.Linear(rank, dim, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return x + self.up(torch.relu(self.down(x)))


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.adapter = Adapter(dim)

    def forward(self, x):
        return self.adapter(x + self.mlp(self.norm(x)))


class Net(nn.Module):
    def __init__(self, cin=16, dim=32, depth=4, classes=6, use_checkpoint=True):
        super().__init__()
        self.stem = nn.Linear(cin, dim)
        self.blocks = nn.ModuleList(Block(dim) for _ in range(depth))
        self.head = nn.Linear(dim, classes)
        self.aux_head = nn.Linear(dim, 2)
        self.use_checkpoint = use_checkpoint

    def forward(self, x):
        h = self.stem(x)
        for b in self.blocks:
            h = checkpoint(b, h, use_reentrant=False) if self.use_checkpoint and self.training else b(h)
        return self.head(h)
