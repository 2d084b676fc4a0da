import torch
import torch.nn as nn


class HistoryRanker(nn.Module):
    def __init__(self, items=200, dim=32):
        super().__init__()
        self.emb = nn.Embedding(items, dim)
        self.query = nn.Parameter(torch.randn(dim) * 0.1)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, dim))

    def pool(self, hist, mask):
        h = self.emb(hist)
        score = self.key(h) @ self.query
        score = score.masked_fill(~mask, float("-inf"))
        alpha = score.softmax(dim=1)
        return torch.einsum("bt,btd->bd", alpha, self.value(h))

    def forward(self, hist, mask):
        u = self.mlp(self.pool(hist, mask))
        return u @ self.emb.weight.t()
