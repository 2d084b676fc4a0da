import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class CausalAttention(nn.Module):
    def __init__(self, d, heads, ctx):
        super().__init__()
        self.h = heads
        self.qkv = nn.Linear(d, 3 * d, bias=False)
        self.o = nn.Linear(d, d, bias=False)
        self.register_buffer("mask", torch.full((ctx, ctx), float("-inf")).triu(1), persistent=False)

    def forward(self, x):
        B, T, D = x.shape
        q, k, v = (t.view(B, T, self.h, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        att = (q / math.sqrt(D // self.h)) @ k.transpose(-2, -1) + self.mask[:T, :T]
        return self.o((att.softmax(-1) @ v).transpose(1, 2).reshape(B, T, D))


class Block(nn.Module):
    def __init__(self, d, heads, ctx):
        super().__init__()
        self.a, self.b = nn.LayerNorm(d), nn.LayerNorm(d)
        self.att = CausalAttention(d, heads, ctx)
        self.mlp = nn.Sequential(nn.Linear(d, 3 * d), nn.GELU(), nn.Linear(3 * d, d))

    def forward(self, x):
        x = x + self.att(self.a(x))
        return x + self.mlp(self.b(x))


class GPT(nn.Module):
    def __init__(self, vocab, d=48, heads=4, layers=2, ctx=48):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, d), nn.Embedding(ctx, d)
        self.blocks = nn.Sequential(*[Block(d, heads, ctx) for _ in range(layers)])
        self.ln, self.head = nn.LayerNorm(d), nn.Linear(d, vocab, bias=False)

    def forward(self, idx, targets=None):
        x = self.tok(idx) + self.pos(torch.arange(idx.shape[1], device=idx.device))
        logits = self.head(self.ln(self.blocks(x)))
        if targets is None:
            return logits
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), reduction="sum")
