# Decoder-only transformer on padded reversal sequences: causal mask and key padding with -inf, bfloat16
import math

import torch
import torch.nn as nn

PAD, SEP, V = 0, 1, 14


def make(n, gen):
    seqs = torch.full((n, 15), PAD)
    for i in range(n):
        k = int(torch.randint(2, 7, (1,), generator=gen))
        s = torch.randint(2, V, (k,), generator=gen)
        s, _ = s.sort()
        full = torch.cat([s, torch.tensor([SEP]), s.flip(0)])
        seqs[i, : len(full)] = full
    return seqs


class Attn(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.qkv = nn.Linear(d, 3 * d)
        self.o = nn.Linear(d, d)

    def forward(self, x, bias):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        s = q @ k.transpose(-1, -2) / math.sqrt(d // self.h)
        p = torch.softmax(s + bias.to(s.dtype), dim=-1)
        return self.o((p @ v).transpose(1, 2).reshape(b, t, d))


class Decoder(nn.Module):
    def __init__(self, d=48, h=4, layers=2):
        super().__init__()
        self.tok, self.pos = nn.Embedding(V, d), nn.Embedding(16, d)
        self.attn = nn.ModuleList(Attn(d, h) for _ in range(layers))
        self.ff = nn.ModuleList(nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d)) for _ in range(layers))
        self.n = nn.ModuleList(nn.LayerNorm(d) for _ in range(2 * layers + 1))
        self.out = nn.Linear(d, V)

    def forward(self, ids):
        t = ids.shape[1]
        bias = torch.full((t, t), float("-inf")).triu(1)
        bias = bias[None, None].masked_fill((ids == PAD)[:, None, None, :], float("-inf"))
        x = self.tok(ids) + self.pos(torch.arange(t))
        for i, (a, f) in enumerate(zip(self.attn, self.ff)):
            x = x + a(self.n[2 * i](x), bias)
            x = x + f(self.n[2 * i + 1](x))
        return self.out(self.n[-1](x))


torch.manual_seed(0)
gen = torch.Generator().manual_seed(4)
model = Decoder()
opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(80):
    ids = make(32, gen)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(ids[:, :-1])
    loss = nn.functional.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten(), ignore_index=PAD)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 10 == 0:
        print(step, round(loss.item(), 4))
