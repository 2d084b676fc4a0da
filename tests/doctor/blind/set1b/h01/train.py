"""Tiny GPT on arithmetic strings, float16 autocast, with top-k sampling at the end."""
import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

CHARS = "0123456789+= ."


class CausalAttention(nn.Module):
    def __init__(self, dim, heads, block):
        super().__init__()
        self.h = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        mask = torch.full((block, block), float("-inf")).triu(1)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (u.view(b, t, self.h, d // self.h).transpose(1, 2) for u in self.qkv(x).split(d, dim=-1))
        att = q @ k.transpose(-1, -2) / math.sqrt(d // self.h)
        att = F.softmax(att + self.mask[:t, :t], dim=-1)
        return self.proj((att @ v).transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    def __init__(self, dim, heads, block):
        super().__init__()
        self.a, self.b = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = CausalAttention(dim, heads, block)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + self.attn(self.a(x))
        return x + self.mlp(self.b(x))


class GPT(nn.Module):
    def __init__(self, vocab, block=24, dim=64, heads=4, layers=2):
        super().__init__()
        self.block = block
        self.tok, self.pos = nn.Embedding(vocab, dim), nn.Embedding(block, dim)
        self.blocks = nn.ModuleList(Block(dim, heads, block) for _ in range(layers))
        self.ln = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, ids):
        x = self.tok(ids) + self.pos(torch.arange(ids.shape[1]))
        for blk in self.blocks:
            x = blk(x)
        return self.head(self.ln(x))

    @torch.no_grad()
    def generate(self, ids, n, top_k, gen):
        for _ in range(n):
            with torch.autocast("cpu", dtype=torch.float16):
                logits = self(ids[:, -self.block:])[:, -1].float()
            kth = torch.topk(logits, top_k).values[:, -1:]
            logits[logits < kth] = -float("inf")
            ids = torch.cat([ids, torch.multinomial(logits.softmax(-1), 1, generator=gen)], 1)
        return ids


def sample(n, block, gen):
    rows = []
    for _ in range(n):
        text = ""
        while len(text) < block + 1:
            a, b = torch.randint(0, 20, (2,), generator=gen).tolist()
            text += f"{a}+{b}={a + b}. "
        rows.append([CHARS.index(c) for c in text[: block + 1]])
    t = torch.tensor(rows)
    return t[:, :-1], t[:, 1:]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=70)
    ap.add_argument("--top-k", type=int, default=4)
    args = ap.parse_args()
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(0)
    model = GPT(len(CHARS))
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95))
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 24)
    for step in range(args.steps):
        x, y = sample(16, model.block, gen)
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(x)
        loss = F.cross_entropy(logits.float().flatten(0, 1), y.flatten())
        opt.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
        if step < 12 or step % 10 == 0:
            print(f"{step:3d} loss {loss.item():.4f} norm {norm.item():.3f} scale {scaler.get_scale():g}")
    start = torch.tensor([[CHARS.index(c) for c in "7+5="]])
    print("".join(CHARS[i] for i in model.generate(start, 20, args.top_k, gen)[0].tolist()))


if __name__ == "__main__":
    main()
