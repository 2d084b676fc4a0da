import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class CausalBlock(nn.Module):
    def __init__(self, d, heads, n):
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.ff = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))
        self.register_buffer("bias", torch.full((n, n), -torch.inf).triu(1), persistent=False)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        att = q @ k.transpose(-2, -1) / math.sqrt(d // self.heads) + self.bias[:n, :n].to(q.dtype)
        x = x + self.proj((att.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))
        return x + self.ff(self.n2(x))


class ImageGPT(nn.Module):
    """Next pixel prediction over quantized gray levels; the last id is the start token."""

    def __init__(self, levels=8, size=6, d=32, layers=2):
        super().__init__()
        self.levels, self.n = levels, size * size
        self.tok = nn.Embedding(levels + 1, d)
        self.pos = nn.Parameter(torch.randn(self.n, d) * 0.02)
        nn.init.normal_(self.tok.weight, std=0.05)
        self.blocks = nn.Sequential(*[CausalBlock(d, 4, self.n) for _ in range(layers)])
        self.norm = nn.LayerNorm(d)
        self.head = nn.Linear(d, levels + 1, bias=False)
        self.head.weight = self.tok.weight

    def forward(self, ids):
        logits = self.head(self.norm(self.blocks(self.tok(ids) + self.pos[:ids.shape[1]])))
        start = torch.arange(self.levels + 1) == self.levels
        return logits.float().masked_fill(start, -torch.inf)

    def nll(self, img):
        ids = torch.cat([torch.full((len(img), 1), self.levels), img[:, :-1]], 1)
        return F.cross_entropy(self(ids).flatten(0, 1), img.flatten())

    @torch.no_grad()
    def sample(self, n, top_k=3, top_p=0.95):
        ids = torch.full((n, 1), self.levels)
        for _ in range(self.n):
            logits = self(ids)[:, -1]
            kth = logits.topk(top_k).values[:, -1:]
            logits = logits.masked_fill(logits < kth, float("-inf"))
            order = logits.argsort(descending=True)
            p = logits.gather(1, order).softmax(-1)
            cut = p.cumsum(-1) - p > top_p
            logits = logits.masked_fill(torch.zeros_like(cut).scatter(1, order, cut), float("-inf"))
            ids = torch.cat([ids, torch.multinomial(logits.softmax(-1), 1)], 1)
        return ids[:, 1:]
