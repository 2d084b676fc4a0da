"""Tiny decoder-only language model on left-padded prompts."""
import torch
import torch.nn as nn
import torch.nn.functional as F

PAD = 0


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.h = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, bias):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        score = q @ k.transpose(-1, -2) / (d // self.h) ** 0.5
        att = (score + bias.to(score.dtype)).softmax(-1)
        return self.proj((att @ v).transpose(1, 2).reshape(b, t, d))


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.att = Attention(dim, heads)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x, bias):
        x = x + self.att(self.n1(x), bias)
        return x + self.ff(self.n2(x))


class LM(nn.Module):
    def __init__(self, vocab=40, dim=32, heads=4, depth=2, ctx=24):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim, padding_idx=PAD)
        self.pos = nn.Embedding(ctx, dim)
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab)

    def build_bias(self, ids, dtype):
        low = torch.finfo(dtype).min
        t = ids.size(1)
        seen = torch.ones(t, t, dtype=torch.bool).tril()[None] & (ids != PAD)[:, None]
        return torch.zeros(seen.shape, dtype=dtype).masked_fill(~seen, low)[:, None]

    def forward(self, ids):
        x = self.tok(ids) + self.pos(torch.arange(ids.size(1)))
        bias = self.build_bias(ids, torch.float32)
        for layer in self.layers:
            x = layer(x, bias)
        return self.head(self.norm(x))


def batch(n, ctx=16):
    ids = torch.zeros(n, ctx + 1, dtype=torch.long)
    for i in range(n):
        length = int(torch.randint(6, ctx + 2, (1,)))
        start = int(torch.randint(1, 30, (1,)))
        ids[i, -length:] = (start + torch.arange(length)) % 39 + 1
    return ids[:, :-1], ids[:, 1:]


torch.manual_seed(1)
model = LM()
opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 60)
for step in range(60):
    inp, tgt = batch(16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(inp)
    loss = F.cross_entropy(logits.float().flatten(0, 1), tgt.flatten(), ignore_index=PAD)
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    sched.step()
    if step % 10 == 0:
        print(step, round(loss.item(), 4))
