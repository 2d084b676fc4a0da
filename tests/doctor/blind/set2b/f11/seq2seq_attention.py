#!/usr/bin/env python
# coding: utf-8

# In[1]:


import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

random.seed(0)
torch.manual_seed(0)


# ## Data: reverse and shift digit strings

# In[2]:


PAD, BOS = 10, 11
VOCAB = 12


def make_batch(n=48, length=8):
    src = torch.randint(0, 10, (n, length))
    tgt = (src.flip(1) + 1) % 10
    inp = torch.cat([torch.full((n, 1), BOS), tgt[:, :-1]], 1)
    return src, inp, tgt


make_batch(2)


# ## Model

# In[3]:


class Encoder(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, d)
        self.pos = nn.Parameter(torch.randn(16, d) * 0.1)
        self.mix = nn.ModuleList([nn.Linear(d, d) for _ in range(2)])

    def forward(self, s):
        h = self.emb(s) + self.pos[: s.size(1)]
        for m in self.mix:
            h = h + torch.tanh(m(h))
        return h


class Decoder(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, d)
        self.pos = nn.Parameter(torch.randn(16, d) * 0.1)
        self.q, self.k, self.v = (nn.Linear(d, d) for _ in range(3))
        self.ff = nn.Sequential(nn.Linear(2 * d, 2 * d), nn.GELU(), nn.Linear(2 * d, VOCAB))

    def forward(self, inp, mem):
        x = self.emb(inp) + self.pos[: inp.size(1)]
        att = self.q(x) @ self.k(mem).transpose(1, 2) / math.sqrt(x.size(-1))
        ctx = torch.softmax(att.float(), -1).to(att.dtype) @ self.v(mem)
        return self.ff(torch.cat([x, ctx], -1))


# In[4]:


enc, dec = Encoder(), Decoder()
params = list(enc.parameters()) + list(dec.parameters())
optimizer = torch.optim.Adam(params, lr=3e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=2048.0)
sum(p.numel() for p in params)


# ## Training

# In[5]:


losses = []
for epoch in range(4):
    with torch.autocast("cpu", dtype=torch.float16):
        for it in range(40):
            src, inp, tgt = make_batch()
            optimizer.zero_grad()
            logits = dec(inp, enc(src))
            loss = F.cross_entropy(logits.flatten(0, 1), tgt.flatten())
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(params, 1.0)
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss.item())
    print("epoch", epoch, "loss", sum(losses[-40:]) / 40)


# In[6]:


with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
    src, inp, tgt = make_batch(256)
    acc = (dec(inp, enc(src)).argmax(-1) == tgt).float().mean()
print("token accuracy", acc.item())


# In[7]:


print("first losses", [round(v, 3) for v in losses[:5]])
print("last losses", [round(v, 3) for v in losses[-5:]])
