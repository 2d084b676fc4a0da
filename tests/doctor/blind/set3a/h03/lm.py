import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class Layer(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))
        self.up, self.down = nn.Linear(d, 3 * d), nn.Linear(3 * d, d)

    def forward(self, x, mask):
        b, t, d = x.shape
        y = self.ln1(x)
        q, k, v = (f(y).view(b, t, self.h, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        w = (q @ k.transpose(2, 3) / math.sqrt(d // self.h)).masked_fill(mask, float("-inf")).softmax(-1)
        x = x + self.o((w @ v).transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.relu(self.up(self.ln2(x))).square())


class LM(nn.Module):
    def __init__(self, vocab, d=48, h=4, n=2, ctx=48):
        super().__init__()
        self.ctx = ctx
        self.tok, self.pos = nn.Embedding(vocab, d), nn.Embedding(ctx, d)
        self.layers = nn.ModuleList(Layer(d, h) for _ in range(n))
        self.ln = nn.LayerNorm(d)
        self.head = nn.Linear(d, vocab)

    def forward(self, ids):
        t = ids.shape[1]
        mask = torch.ones(t, t, dtype=torch.bool).triu(1)
        x = self.tok(ids) + self.pos(torch.arange(t))
        for l in self.layers:
            x = l(x, mask)
        return self.head(self.ln(x))

    @torch.no_grad()
    def generate(self, ids, n, k=5, p=0.9, temperature=0.8):
        for _ in range(n):
            logits = self(ids[:, -self.ctx:])[:, -1].float() / temperature
            kth = logits.topk(k).values[:, -1:]
            logits[logits < kth] = -float("inf")
            s, order = logits.sort(descending=True)
            drop = s.softmax(-1).cumsum(-1) - s.softmax(-1) > p
            logits = logits.scatter(1, order, s.masked_fill(drop, -float("inf")))
            ids = torch.cat([ids, torch.multinomial(logits.softmax(-1), 1)], 1)
        return ids
