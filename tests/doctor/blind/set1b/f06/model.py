import math

import torch
import torch.nn as nn


class SelfAttention(nn.Module):
    def __init__(self, dim, heads, dropout):
        super().__init__()
        self.heads, self.dh = heads, dim // heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, pad_mask):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, self.dh).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.dh)
        scores = scores.masked_fill(pad_mask[:, None, None, :], float("-inf"))
        attn = self.drop(torch.softmax(scores, dim=-1))
        return self.proj((attn @ v).transpose(1, 2).reshape(b, t, d))


class Layer(nn.Module):
    def __init__(self, dim, heads, dropout):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = SelfAttention(dim, heads, dropout)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x, pad_mask):
        x = x + self.attn(self.n1(x), pad_mask)
        return x + self.ff(self.n2(x))


class ReviewClassifier(nn.Module):
    def __init__(self, vocab, dim=64, heads=4, depth=2, max_len=48, dropout=0.1, pad=0):
        super().__init__()
        self.pad = pad
        self.tok = nn.Embedding(vocab, dim, padding_idx=pad)
        self.pos = nn.Parameter(torch.randn(max_len, dim) * 0.02)
        self.layers = nn.ModuleList(Layer(dim, heads, dropout) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.cls = nn.Linear(dim, 2)

    def forward(self, ids):
        mask = ids == self.pad
        x = self.tok(ids) + self.pos[: ids.shape[1]]
        for layer in self.layers:
            x = layer(x, mask)
        x = self.norm(x)
        keep = (~mask).unsqueeze(-1).to(x.dtype)
        pooled = (x * keep).sum(1) / keep.sum(1).clamp(min=1)
        return self.cls(pooled)
