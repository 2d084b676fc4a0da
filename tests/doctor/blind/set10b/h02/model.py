import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, bias):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        score = q @ k.transpose(-1, -2) * (d // self.heads) ** -0.5 + bias
        return self.proj((score.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))


class Decoder(nn.Module):
    def __init__(self, vocab, length, dim=48, heads=4, layers=2):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim, padding_idx=0)
        self.pos = nn.Embedding(length, dim)
        self.attn = nn.ModuleList([Attention(dim, heads) for _ in range(layers)])
        self.ff = nn.ModuleList([
            nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
            for _ in range(layers)])
        self.norm = nn.ModuleList([nn.LayerNorm(dim) for _ in range(layers)])
        self.out = nn.Linear(dim, vocab)

    def bias(self, ids):
        t = ids.shape[1]
        causal = torch.full((t, t), float("-inf")).triu(1)
        pad = torch.zeros(ids.shape).masked_fill(ids.eq(0), float("-inf"))
        return causal[None, None] + pad[:, None, None, :]

    def forward(self, ids):
        x = self.tok(ids) + self.pos(torch.arange(ids.shape[1]))
        bias = self.bias(ids)
        for norm, attn, ff in zip(self.norm, self.attn, self.ff):
            x = x + attn(norm(x), bias)
            x = x + ff(x)
        return self.out(x)
