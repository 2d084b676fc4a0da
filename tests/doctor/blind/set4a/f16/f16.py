"""Masked-token fine-tuning of a tiny encoder with activation checkpointing and frozen embeddings."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

VOCAB, MASK, LENGTH = 34, 33, 16


class EncoderBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.fc1, self.fc2 = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).chunk(3, -1)
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class Encoder(nn.Module):
    def __init__(self, dim=48, depth=3):
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, dim)
        self.position = nn.Parameter(torch.randn(1, LENGTH, dim) * 0.3)
        self.blocks = nn.ModuleList(EncoderBlock(dim) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.lm_head = nn.Linear(dim, VOCAB)
        self.use_checkpoint = True

    def freeze_embeddings(self):
        self.tokens.requires_grad_(False)
        self.position.requires_grad_(False)

    def trunk(self, x):
        for block in self.blocks:
            x = block(x)
        return x

    def forward(self, ids):
        x = self.tokens(ids) + self.position
        if self.use_checkpoint and self.training:
            x = checkpoint(self.trunk, x, use_reentrant=True)
        else:
            x = self.trunk(x)
        return self.lm_head(self.norm(x))


def batch(rng, n=32):
    rows = []
    for _ in range(n):
        start, step = rng.randrange(33), rng.choice([1, 2])
        rows.append([(start + step * i) % 33 for i in range(LENGTH)])
    target = torch.tensor(rows)
    hidden = torch.zeros_like(target, dtype=torch.bool)
    for i in range(n):
        hidden[i, rng.sample(range(LENGTH), 3)] = True
    return target.masked_fill(hidden, MASK), target.masked_fill(~hidden, -100)


def main():
    torch.manual_seed(0)
    rng = random.Random(0)
    model = Encoder()
    model.freeze_embeddings()
    params = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.AdamW(params, lr=3e-3)
    model.train()
    for step in range(120):
        ids, labels = batch(rng)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(ids)
            loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(params, 1.0)
        opt.step()
        if step % 20 == 0 or step == 119:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
