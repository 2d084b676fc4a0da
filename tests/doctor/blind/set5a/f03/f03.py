"""Intent classifier over padded token sequences, RMS-normalised blocks."""
import random
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence


@dataclass
class Config:
    vocab: int = 64
    dim: int = 48
    blocks: int = 2
    classes: int = 5
    batch: int = 32
    steps: int = 40
    lr: float = 2e-3
    half: bool = True


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-8):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        inv = torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + self.eps)
        return x * inv * self.weight


class GatedBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.up = nn.Linear(dim, dim * 2, bias=False)
        self.norm = RMSNorm(dim)
        self.down = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        a, b = self.up(x).chunk(2, dim=-1)
        return x + self.down(self.norm(F.silu(a) * b))


class IntentNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.emb = nn.Embedding(cfg.vocab, cfg.dim, padding_idx=0)
        self.blocks = nn.ModuleList([GatedBlock(cfg.dim) for _ in range(cfg.blocks)])
        self.head = nn.Linear(cfg.dim, cfg.classes)

    def forward(self, tokens):
        keep = (tokens != 0).unsqueeze(-1)
        h = self.emb(tokens)
        for blk in self.blocks:
            h = blk(h)
        h = (h * keep).sum(1) / keep.sum(1)
        return self.head(h)


def sample(cfg, rng):
    y = rng.randrange(cfg.classes)
    n = rng.randint(4, 14)
    lo = 1 + y * 10
    toks = [rng.randint(lo, lo + 14) if rng.random() < 0.7 else rng.randint(1, cfg.vocab - 1) for _ in range(n)]
    return torch.tensor([min(t, cfg.vocab - 1) for t in toks]), y


def collate(items):
    xs, ys = zip(*items)
    return pad_sequence(xs, batch_first=True, padding_value=0), torch.tensor(ys)


def train(cfg):
    rng = random.Random(0)
    torch.manual_seed(0)
    model = IntentNet(cfg)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr)
    scaler = torch.amp.GradScaler("cpu", enabled=cfg.half)
    for step in range(cfg.steps):
        x, y = collate([sample(cfg, rng) for _ in range(cfg.batch)])
        with torch.autocast("cpu", dtype=torch.float16, enabled=cfg.half):
            loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
        if step % 5 == 0:
            print(f"{step:3d}  loss={loss.item():.4f}  scale={scaler.get_scale():g}")


if __name__ == "__main__":
    train(Config())
