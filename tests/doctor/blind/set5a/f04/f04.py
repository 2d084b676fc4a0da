"""Small decoder-only LM on batches of prompts, padded on the left for generation."""
import math
import random
import torch
import torch.nn as nn
import torch.nn.functional as F

PAD = 0
VOCAB = 40
random.seed(5)
torch.manual_seed(5)


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, allowed):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        att = q @ k.transpose(-2, -1) / math.sqrt(c // self.heads)
        att = att.masked_fill(~allowed[:, None], float("-inf"))
        att = att.softmax(dim=-1)
        return self.proj((att @ v).transpose(1, 2).reshape(b, t, c))


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.att = Attention(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, dim * 4), nn.GELU(), nn.Linear(dim * 4, dim))

    def forward(self, x, allowed):
        x = x + self.att(self.n1(x), allowed)
        return x + self.mlp(self.n2(x))


class LM(nn.Module):
    def __init__(self, dim=48, heads=4, depth=2, max_len=32):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, dim)
        self.pos = nn.Embedding(max_len, dim)
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.out = nn.Linear(dim, VOCAB)

    def forward(self, ids):
        b, t = ids.shape
        causal = torch.ones(t, t, dtype=torch.bool).tril()
        real = ids != PAD
        allowed = causal & real[:, None, :]
        x = self.tok(ids) + self.pos(torch.arange(t))
        for layer in self.layers:
            x = layer(x, allowed)
        return self.out(self.norm(x))


def sequence(n):
    start, stride = random.randint(1, VOCAB - 1), random.randint(1, 3)
    return [1 + (start + i * stride) % (VOCAB - 1) for i in range(n)]


def batch(size, ragged):
    lens = [random.randint(10, 24) if ragged else 24 for _ in range(size)]
    t = max(lens)
    ids = torch.full((size, t), PAD)
    for row, n in enumerate(lens):
        ids[row, t - n:] = torch.tensor(sequence(n))
    return ids


def main():
    model = LM()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for step in range(60):
        ids = batch(16, ragged=step >= 15)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten(), ignore_index=PAD)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        if step % 5 == 0:
            print(f"step {step:2d} loss {loss.item():.3f}")


main()
