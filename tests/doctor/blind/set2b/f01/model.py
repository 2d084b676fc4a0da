import torch
import torch.nn as nn

from frontend import EnergyPooling, GaborFilterbank


class ConvBlock(nn.Module):
    def __init__(self, dim, k=5):
        super().__init__()
        self.dw = nn.Conv1d(dim, dim, k, padding=k // 2, groups=dim)
        self.pw = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.ln = nn.LayerNorm(dim)

    def forward(self, x):
        h = self.dw(x.transpose(1, 2)).transpose(1, 2)
        return x + self.pw(self.ln(h))


class KeywordNet(nn.Module):
    def __init__(self, n_classes, n_filters=24, dim=48, depth=2):
        super().__init__()
        self.bank = GaborFilterbank(n_filters)
        self.pool = EnergyPooling(n_filters)
        self.proj = nn.Linear(n_filters, dim)
        self.blocks = nn.ModuleList(ConvBlock(dim) for _ in range(depth))
        self.head = nn.Linear(dim, n_classes)

    def forward(self, wav):
        x = self.proj(self.pool(self.bank(wav)))
        for blk in self.blocks:
            x = blk(x)
        return self.head(x.mean(dim=1))
