import argparse
import copy
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

from sequences import CountingSequences, pad_left


class CausalAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, pad):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        score = (q @ k.transpose(-1, -2)).float() / math.sqrt(d // self.heads)
        causal = torch.full((t, t), float("-inf")).triu(1)
        score = score + causal
        score = score.masked_fill(pad[:, None, None, :], float("-inf"))
        empty = torch.isneginf(score).all(dim=-1, keepdim=True)
        weight = torch.softmax(score.masked_fill(empty, 0.0), dim=-1).masked_fill(empty, 0.0)
        return self.proj((weight.to(v.dtype) @ v).transpose(1, 2).reshape(b, t, d))


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = CausalAttention(dim, heads)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x, pad):
        x = x + self.attn(self.ln1(x), pad)
        return x + self.ff(self.ln2(x))


class Decoder(nn.Module):
    def __init__(self, vocab, dim, heads, depth, length):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, dim), nn.Embedding(length, dim)
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)
        self.head.weight = self.tok.weight
        nn.init.normal_(self.tok.weight, std=0.05)

    def forward(self, ids, pad):
        x = self.tok(ids) + self.pos.weight[: ids.shape[1]]
        for layer in self.layers:
            x = layer(x, pad)
        return self.head(self.norm(x))


def run(args):
    torch.manual_seed(args.seed)
    data = CountingSequences(640, args.vocab)
    loader = DataLoader(data, args.batch_size, shuffle=True, collate_fn=pad_left)
    model = Decoder(args.vocab, 32, 4, 2, 32)
    averaged = copy.deepcopy(model).requires_grad_(False)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.95))
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 14)
    for epoch in range(args.epochs):
        total, tokens = 0.0, 0
        for step, (ids, pad) in enumerate(loader):
            with torch.autocast("cpu", dtype=torch.float16):
                logits = model(ids[:, :-1], pad[:, :-1])
                target = ids[:, 1:].masked_fill(pad[:, :-1], -100)
                loss = F.cross_entropy(logits.flatten(0, 1), target.flatten())
            scaler.scale(loss / args.accumulate).backward()
            if (step + 1) % args.accumulate == 0 or step + 1 == len(loader):
                scaler.unscale_(opt)
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(opt)
                scaler.update()
                opt.zero_grad(set_to_none=True)
                with torch.no_grad():
                    for a, p in zip(averaged.parameters(), model.parameters()):
                        a.lerp_(p, 0.05)
            count = (target != -100).sum().item()
            total += loss.item() * count
            tokens += count
        print(f"epoch {epoch} ppl {math.exp(total / tokens):.3f} scale {scaler.get_scale():.0f}")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=6)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--accumulate", type=int, default=1)
    p.add_argument("--vocab", type=int, default=24)
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--seed", type=int, default=0)
    run(p.parse_args())
