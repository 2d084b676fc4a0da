import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

from sessions import build


@dataclass
class Config:
    items: int = 80
    width: int = 12
    dim: int = 32
    heads: int = 2
    epochs: int = 6
    lr: float = 4e-3
    top: int = 5


class CausalBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))

    def forward(self, x, blocked):
        b, t, d = x.shape
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.qkv(self.norm1(x)).chunk(3, -1))
        score = q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])
        weights = score.masked_fill(blocked[:, None], float("-inf")).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(b, t, d))
        return x + self.ff(self.norm2(x))


class NextItem(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.items = nn.Embedding(cfg.items + 1, cfg.dim, padding_idx=0)
        self.places = nn.Embedding(cfg.width, cfg.dim)
        self.popularity = nn.Parameter(torch.zeros(cfg.items + 1))
        self.user_bias = nn.Parameter(torch.zeros(1, cfg.dim))     # kept for old checkpoints
        self.blocks = nn.ModuleList(CausalBlock(cfg.dim, cfg.heads) for _ in range(2))

    def forward(self, seq):
        t = seq.shape[1]
        future = torch.ones(t, t, dtype=torch.bool).triu(1)
        blocked = future | (seq == 0)[:, None, :]
        blocked = blocked & ~torch.eye(t, dtype=torch.bool)
        x = self.items(seq) + self.places.weight
        for block in self.blocks:
            x = block(x, blocked)
        return x @ self.items.weight.t() + self.popularity


def recall(model, seq, wanted, cfg):
    with torch.no_grad():
        score = model(seq)[:, -1]
    score[:, 0] = float("-inf")
    score.scatter_(1, seq, float("-inf"))
    top = score.topk(cfg.top, 1).indices
    hits = (top[:, :, None] == wanted[:, None, :]) & (wanted[:, None, :] > 0)
    return hits.any(1).sum(1) / (wanted > 0).sum(1)      # users with nothing to find have no recall


def main():
    cfg = Config()
    torch.manual_seed(0)
    seq, nxt, test_seq, wanted = build(cfg.items, cfg.width, seed=8)
    model = NextItem(cfg)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    for epoch in range(cfg.epochs):
        losses = []
        for idx in torch.randperm(len(seq)).split(64):
            logits = model(seq[idx])
            loss = F.cross_entropy(logits.flatten(0, 1), nxt[idx].flatten(), ignore_index=0)
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        per_user = recall(model, test_seq, wanted, cfg)
        print(f"epoch {epoch} loss {sum(losses) / len(losses):.4f} recall@{cfg.top} {per_user.nanmean():.3f} "
              f"({int(per_user.isnan().sum())} of {len(per_user)} users undefined)")
    print("first users:", [round(v, 2) for v in per_user[:8].tolist()])


if __name__ == "__main__":
    main()
