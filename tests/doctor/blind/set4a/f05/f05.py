"""Sentence completion with a decoder; prompts are padded on the left so that the last position is always a word."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

PAD, BOS = 0, 1
WORDS = ["<pad>", "<bos>"] + [f"w{i}" for i in range(40)]


def sentence(rng):
    start, step = rng.randrange(40), rng.choice([1, 2, 3])
    n = rng.randrange(5, 13)
    return [BOS] + [2 + (start + step * k) % 40 for k in range(n)]


def collate(batch):
    width = max(len(s) for s in batch)
    ids = torch.full((len(batch), width), PAD)
    for i, s in enumerate(batch):
        ids[i, width - len(s):] = torch.tensor(s)
    return ids, ids != PAD


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, allowed):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5
        scores = scores.masked_fill(~allowed[:, None], float("-inf"))
        att = F.softmax(scores, dim=-1)
        return self.out((att @ v).transpose(1, 2).reshape(b, t, d))


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.att = Attention(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x, allowed):
        x = x + self.att(self.n1(x), allowed)
        return x + self.mlp(self.n2(x))


class Decoder(nn.Module):
    def __init__(self, vocab, dim=48, heads=4, layers=2, ctx=32):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, dim), nn.Embedding(ctx, dim)
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids, real):
        t = ids.shape[1]
        causal = torch.ones(t, t, dtype=torch.bool).tril()
        allowed = causal[None] & real[:, None, :]
        position = (real.cumsum(1) - 1).clamp(min=0)
        x = self.tok(ids) + self.pos(position)
        for layer in self.layers:
            x = layer(x, allowed)
        return self.head(self.norm(x))


def main():
    torch.manual_seed(0)
    rng = random.Random(4)
    model = Decoder(len(WORDS))
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 2e-3, total_steps=60)
    for step in range(60):
        ids, real = collate([sentence(rng) for _ in range(24)])
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(ids[:, :-1], real[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), ignore_index=PAD)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        if step % 10 == 0:
            print(f"{step:3d} {loss.item():.4f}")


main()
