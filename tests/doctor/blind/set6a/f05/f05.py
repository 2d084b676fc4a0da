"""Tiny decoder-only LM with left-padded prompts (generation style batches), bf16."""
import math
import random
import torch
import torch.nn as nn
import torch.nn.functional as F

PAD, VOCAB, DIM, HEADS, CTX = 0, 48, 48, 4, 20
random.seed(0)
torch.manual_seed(0)


def attention_bias(pad):
    n = pad.size(1)
    causal = torch.ones(n, n, dtype=torch.bool, device=pad.device).tril()
    allowed = causal[None, :, :] & ~pad[:, None, :]
    bias = torch.zeros(allowed.shape, device=pad.device)
    return bias.masked_fill(~allowed, float("-inf"))[:, None]


class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.proj = nn.Linear(DIM, DIM)

    def forward(self, x, bias):
        b, n, _ = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, HEADS, DIM // HEADS).permute(2, 0, 3, 1, 4)
        att = q @ k.transpose(-1, -2) / math.sqrt(DIM // HEADS)
        att = F.softmax(att + bias, dim=-1)
        return self.proj((att.to(v.dtype) @ v).transpose(1, 2).reshape(b, n, DIM))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.att = SelfAttention()
        self.mlp = nn.Sequential(nn.Linear(DIM, 4 * DIM), nn.GELU(), nn.Linear(4 * DIM, DIM))

    def forward(self, x, bias):
        x = x + self.att(self.n1(x), bias)
        return x + self.mlp(self.n2(x))


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, DIM)
        self.pos = nn.Embedding(CTX, DIM)
        self.layers = nn.ModuleList([Layer(), Layer()])
        self.norm = nn.LayerNorm(DIM)
        self.head = nn.Linear(DIM, VOCAB, bias=False)

    def forward(self, ids):
        pad = ids.eq(PAD)
        x = self.tok(ids) + self.pos(torch.arange(ids.size(1)))
        bias = attention_bias(pad)
        for layer in self.layers:
            x = layer(x, bias)
        return self.head(self.norm(x))


def corpus(n):
    docs = []
    for _ in range(n):
        start, stride = random.randint(1, 40), random.randint(1, 3)
        length = CTX if random.random() < 0.5 else random.randint(6, CTX)
        docs.append([1 + (start + stride * t) % (VOCAB - 1) for t in range(length)])
    return sorted(docs, key=len, reverse=True)


def collate(docs):
    width = max(map(len, docs))
    return torch.tensor([[PAD] * (width - len(d)) + d for d in docs])


model = LM()
opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
docs = corpus(1200)
batch = 16
for step, i in enumerate(range(0, len(docs), batch)):
    ids = collate(docs[i:i + batch])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), ignore_index=PAD)
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    if step % 6 == 0:
        print(f"step {step:3d} len {ids.size(1)} loss {loss.item():.4f}")
