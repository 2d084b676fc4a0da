import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def attend(self, x, bias):
        b, t, d = x.shape
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.qkv(x).chunk(3, -1))
        w = (q / math.sqrt(q.size(-1))) @ k.transpose(-1, -2) + bias
        return self.out((torch.softmax(w, -1).to(v.dtype) @ v).transpose(1, 2).reshape(b, t, d))

    def forward(self, x, bias):
        x = x + self.attend(self.ln1(x), bias)
        return x + self.mlp(self.ln2(x))


class CharLM(nn.Module):
    def __init__(self, vocab, ctx=32, d=48, depth=2, heads=4):
        super().__init__()
        self.ctx = ctx
        self.tok, self.pos = nn.Embedding(vocab, d), nn.Embedding(ctx, d)
        self.blocks = nn.ModuleList(Block(d, heads) for _ in range(depth))
        self.ln, self.head = nn.LayerNorm(d), nn.Linear(d, vocab)
        self.register_buffer("bias", torch.full((ctx, ctx), float("-inf")).triu(1), persistent=False)

    def forward(self, idx):
        t = idx.size(1)
        x = self.tok(idx) + self.pos.weight[:t]
        for blk in self.blocks:
            x = blk(x, self.bias[:t, :t])
        return self.head(self.ln(x))


def filter_top_k(logits, k):
    kth = logits.topk(k, dim=-1).values[:, -1:]
    return logits.masked_fill(logits < kth, float("-inf"))


@torch.inference_mode()
def sample(model, idx, n, k=4, generator=None):
    for _ in range(n):
        logits = model(idx[:, -model.ctx:])[:, -1].float()
        p = F.softmax(filter_top_k(logits, k), -1)
        idx = torch.cat([idx, torch.multinomial(p, 1, generator=generator)], 1)
    return idx


@torch.inference_mode()
def beam(model, idx, n, width=3):
    score = torch.full((width,), float("-inf"))
    score[0] = 0.0
    seqs = idx.repeat(width, 1)
    for _ in range(n):
        lp = F.log_softmax(model(seqs[:, -model.ctx:])[:, -1].float(), -1)
        total = score[:, None] + lp
        score, flat = total.flatten().topk(width)
        seqs = torch.cat([seqs[flat // lp.size(1)], (flat % lp.size(1))[:, None]], 1)
    return seqs[0], score[0].item()
