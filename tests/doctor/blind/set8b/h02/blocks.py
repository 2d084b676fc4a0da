import torch
import torch.nn as nn
import torch.nn.functional as F


class SetAttention(nn.Module):
    """Attention over a padded set. Sets may be empty: their result is zero."""

    def __init__(self, dim, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, keep):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        score = (q @ k.transpose(-2, -1)) * (d // self.heads) ** -0.5
        dead = ~keep.any(1)
        allow = keep | dead[:, None]
        score = score.masked_fill(~allow[:, None, None, :], float("-inf"))
        mixed = (score.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d)
        mixed = self.out(mixed)
        return torch.where(dead[:, None, None], torch.zeros_like(mixed), mixed)


class MaxPool(nn.Module):
    def forward(self, x, keep):
        low = torch.full_like(x, float("-inf"))
        top = torch.where(keep[..., None], x, low).amax(1)
        return torch.where(keep.any(1, keepdim=True), top, torch.zeros_like(top))


class SetNet(nn.Module):
    def __init__(self, feats, dim=32, depth=2):
        super().__init__()
        self.inp = nn.Linear(feats, dim)
        self.att = nn.ModuleList(SetAttention(dim) for _ in range(depth))
        self.norm = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.pool = MaxPool()
        self.head = nn.Linear(dim, 1)

    def forward(self, x, keep):
        h = self.inp(x)
        for att, norm in zip(self.att, self.norm):
            h = h + att(norm(h), keep)
            h = h + F.gelu(h)
        return self.head(self.pool(h, keep)).squeeze(-1)
