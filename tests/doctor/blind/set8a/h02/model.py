import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, bias):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(d // self.heads)
        w = F.softmax(scores.float() + bias, dim=-1)
        return self.out((w.to(v.dtype) @ v).transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x, bias):
        x = x + self.attn(self.n1(x), bias)
        return x + self.mlp(self.n2(x))


class Decoder(nn.Module):
    def __init__(self, vocab, dim=32, heads=4, depth=2, max_len=32):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim, padding_idx=0)
        self.pos = nn.Parameter(torch.zeros(max_len, dim))
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab)
        causal = torch.triu(torch.full((max_len, max_len), float("-inf")), 1)
        self.register_buffer("causal", causal)

    def forward(self, ids):
        t = ids.shape[1]
        pad = torch.zeros(ids.shape, dtype=torch.float32).masked_fill(ids == 0, float("-inf"))
        bias = self.causal[:t, :t] + pad[:, None, None, :]
        x = self.tok(ids) + self.pos[:t]
        for block in self.blocks:
            x = block(x, bias)
        return self.head(self.norm(x))
