import math

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim, heads, context):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        # position i looks at the last `window` positions, itself included
        window = 6
        i = torch.arange(context)
        allowed = (i[:, None] >= i[None, :]) & (i[:, None] - i[None, :] < window)
        bias = torch.zeros(context, context).masked_fill(~allowed, float("-inf"))
        self.register_buffer("bias", bias, persistent=False)

    def forward(self, x, pad):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        s = q @ k.transpose(-1, -2) / math.sqrt(d // self.heads) + self.bias[:t, :t]
        # padded keys are hidden, but everyone keeps itself
        own = torch.eye(t, dtype=torch.bool)
        s = s.masked_fill(pad[:, None, None, :] & ~own, float("-inf"))
        return self.out((s.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    def __init__(self, dim, heads, context):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.att = Attention(dim, heads, context)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x, pad):
        x = x + self.att(self.n1(x), pad)
        return x + self.ff(self.n2(x))


class Decoder(nn.Module):
    def __init__(self, vocab, dim=16, heads=2, depth=1, context=16):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, dim), nn.Embedding(context, dim)
        self.blocks = nn.ModuleList(Block(dim, heads, context) for _ in range(depth))
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids, pad):
        x = self.tok(ids) + self.pos.weight[: ids.shape[1]]
        for b in self.blocks:
            x = b(x, pad)
        return self.head(x)
