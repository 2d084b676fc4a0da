import math

import torch
import torch.nn as nn


class AdditiveUserEncoder(nn.Module):
    """News recommender: the user's clicked articles, pooled by attention."""

    def __init__(self, dim, heads=2):
        super().__init__()
        self.h, self.d = heads, dim // heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.query = nn.Parameter(torch.randn(dim) / math.sqrt(dim))
        self.score = nn.Linear(dim, dim)

    def self_attention(self, x, valid):
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.h, self.d).permute(2, 0, 3, 1, 4)
        s = q @ k.transpose(-1, -2) / math.sqrt(self.d)
        # additive bias keeps padded clicks out; a large finite value is enough here
        s = s + (~valid)[:, None, None, :].to(s.dtype) * -3e4
        o = torch.softmax(s, dim=-1) @ v
        return self.proj(o.transpose(1, 2).reshape(b, n, c))

    def forward(self, clicks, valid):
        h = clicks + self.self_attention(clicks, valid)
        e = torch.tanh(self.score(h)) @ self.query
        e = e.masked_fill(~valid, float("-inf"))
        w = e.softmax(dim=1)
        return torch.einsum("bn,bnc->bc", w, h)


class NewsRec(nn.Module):
    def __init__(self, vocab, dim=32):
        super().__init__()
        self.words = nn.EmbeddingBag(vocab, dim, mode="mean")
        self.title = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.user = AdditiveUserEncoder(dim)
        self.vocab = vocab

    def encode(self, titles):
        shape = titles.shape[:-1]
        return self.title(self.words(titles.flatten(0, -2))).view(*shape, -1)

    def forward(self, history, valid, candidates):
        u = self.user(self.encode(history), valid)
        c = self.encode(candidates)
        return (c * u.unsqueeze(1)).sum(-1)
