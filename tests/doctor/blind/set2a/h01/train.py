"""Character model of a made-up language in bfloat16; samples with top-k and nucleus filtering while it trains."""
import argparse
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

CHARS = "abcdefghijklmnopqrstuvwxyz ."


def corpus(seed, words=1500):
    rng = random.Random(seed)
    onset, vowel, coda = ["b", "tr", "k", "s", "st", "m", "l"], ["a", "e", "io", "u"], ["", "n", "r", "sh"]
    lexicon = ["".join(rng.choice(onset) + rng.choice(vowel) + rng.choice(coda) for _ in range(rng.randint(1, 3))) for _ in range(60)]
    text = " ".join(rng.choice(lexicon) + ("." if rng.random() < 0.1 else "") for _ in range(words))
    return torch.tensor([CHARS.index(c) for c in text])


class Block(nn.Module):
    def __init__(self, dim, heads, size):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.register_buffer("bias", torch.full((size, size), float("-inf")).triu(1), persistent=False)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.qkv(self.n1(x)).chunk(3, -1))
        att = (q @ k.transpose(-2, -1)) / q.shape[-1] ** 0.5 + self.bias[:t, :t]
        y = (att.softmax(-1) @ v.to(att.dtype)).transpose(1, 2).reshape(b, t, d)
        x = x + self.proj(y)
        return x + self.mlp(self.n2(x))


class CharLM(nn.Module):
    def __init__(self, size, dim=32, heads=4, layers=2):
        super().__init__()
        self.tok, self.pos = nn.Embedding(len(CHARS), dim), nn.Embedding(size, dim)
        self.blocks = nn.ModuleList(Block(dim, heads, size) for _ in range(layers))
        self.norm, self.size = nn.LayerNorm(dim), size

    def forward(self, ids):
        x = self.tok(ids) + self.pos.weight[:ids.shape[1]]
        for b in self.blocks:
            x = b(x)
        return F.linear(self.norm(x), self.tok.weight)


def keep_top_k(logits, k):
    worst = logits.topk(k).values[..., -1:]
    return logits.masked_fill(logits < worst, -float("inf"))


def keep_nucleus(logits, p):
    order = logits.sort(descending=True)
    prob = order.values.softmax(-1)
    drop = prob.cumsum(-1) - prob > p
    return torch.full_like(logits, float("-inf")).scatter(-1, order.indices, order.values.masked_fill(drop, float("-inf")))


@torch.inference_mode()
def babble(model, n, gen):
    ids = torch.tensor([[CHARS.index(" ")]])
    for _ in range(n):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(ids[:, -model.size:])[:, -1].float()
        logits = keep_nucleus(keep_top_k(logits / 0.9, 12), 0.95)
        ids = torch.cat([ids, torch.multinomial(logits.softmax(-1), 1, generator=gen)], 1)
    return "".join(CHARS[i] for i in ids[0])


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=80)
    ap.add_argument("--block", type=int, default=24)
    ap.add_argument("--lr", type=float, default=6e-3)
    args = ap.parse_args()
    torch.manual_seed(70)
    gen = torch.Generator().manual_seed(71)
    data = corpus(72)
    model = CharLM(args.block)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.95))
    best = float("inf")
    for step in range(args.steps):
        at = torch.randint(0, len(data) - args.block - 1, (24,), generator=gen)
        chunk = torch.stack([data[i:i + args.block + 1] for i in at])
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(chunk[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), chunk[:, 1:].flatten())
        opt.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        best = min(best, loss.item())
        if step % 20 == 19:
            print(f"{step + 1:3d} loss {loss.item():.4f} best {best:.4f} norm {norm:.2f} | {babble(model, 40, gen)!r}")


if __name__ == "__main__":
    main()
