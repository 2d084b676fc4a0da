"""A small patch transformer that ignores background patches."""
import math

import torch
from torch import nn


class PatchAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, keep):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / math.sqrt(d // self.heads)
        scores = scores.masked_fill(~keep[:, None, None, :], float("-inf"))
        attn = scores.softmax(dim=-1)
        return self.out((attn @ v).transpose(1, 2).reshape(b, n, d))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = PatchAttention(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x, keep):
        x = x + self.attn(self.n1(x), keep)
        return x + self.mlp(self.n2(x))


class SlideNet(nn.Module):
    """Tissue grading: image -> patches -> masked attention -> pooled logits."""

    def __init__(self, image=32, patch=8, dim=48, depth=2, heads=4, classes=3):
        super().__init__()
        self.patch = patch
        self.embed = nn.Conv2d(3, dim, patch, stride=patch)
        self.pos = nn.Parameter(torch.randn(1, (image // patch) ** 2, dim) * 0.02)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def tissue_mask(self, img):
        """Patches that are nearly white hold no tissue."""
        dark = nn.functional.avg_pool2d(1.0 - img.float().mean(1, keepdim=True), self.patch)
        return dark.flatten(1) > 0.08

    def forward(self, img):
        keep = self.tissue_mask(img)
        x = self.embed(img).flatten(2).transpose(1, 2) + self.pos
        for block in self.blocks:
            x = block(x, keep)
        w = keep.float().unsqueeze(-1)
        pooled = (self.norm(x) * w).sum(1) / w.sum(1).clamp(min=1)
        return self.head(pooled)
