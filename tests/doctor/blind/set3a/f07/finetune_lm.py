"""Instruction tuning of a tiny decoder. Prompts are padded on the left, as generation wants them."""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

PAD = 0


@dataclass
class Config:
    vocab: int = 64
    dim: int = 48
    heads: int = 4
    layers: int = 2
    max_len: int = 40
    batch: int = 16
    pretrain_steps: int = 30
    tune_steps: int = 30
    lr: float = 3e-3


class Attention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.heads = cfg.heads
        self.qkv = nn.Linear(cfg.dim, 3 * cfg.dim, bias=False)
        self.out = nn.Linear(cfg.dim, cfg.dim, bias=False)

    def forward(self, x, bias):
        b, t, c = x.shape
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.qkv(x).chunk(3, -1))
        att = q @ k.transpose(-2, -1) * (1.0 / math.sqrt(c // self.heads))
        att = att + bias
        att = F.softmax(att, dim=-1)
        return self.out((att @ v).transpose(1, 2).reshape(b, t, c))


class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(cfg.dim), nn.LayerNorm(cfg.dim)
        self.att = Attention(cfg)
        self.ff = nn.Sequential(nn.Linear(cfg.dim, 4 * cfg.dim), nn.GELU(), nn.Linear(4 * cfg.dim, cfg.dim))

    def forward(self, x, bias):
        x = x + self.att(self.n1(x), bias)
        return x + self.ff(self.n2(x))


class TinyGPT(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.tok = nn.Embedding(cfg.vocab, cfg.dim)
        self.pos = nn.Embedding(cfg.max_len, cfg.dim)
        self.blocks = nn.ModuleList(Block(cfg) for _ in range(cfg.layers))
        self.norm = nn.LayerNorm(cfg.dim)
        self.head = nn.Linear(cfg.dim, cfg.vocab, bias=False)

    def attention_bias(self, attention_mask):
        t = attention_mask.shape[1]
        allowed = torch.ones(t, t, dtype=torch.bool).tril()[None] & attention_mask[:, None, :]
        bias = torch.zeros(allowed.shape)
        return bias.masked_fill(~allowed, -math.inf).unsqueeze(1)

    def forward(self, ids, attention_mask):
        pos = (attention_mask.long().cumsum(1) - 1).clamp(min=0)
        x = self.tok(ids) + self.pos(pos)
        bias = self.attention_bias(attention_mask)
        for blk in self.blocks:
            x = blk(x, bias)
        return self.head(self.norm(x))


def corpus_batch(cfg, g):
    start = torch.randint(1, cfg.vocab, (cfg.batch, 1), generator=g)
    step = torch.randint(1, 4, (cfg.batch, 1), generator=g)
    ids = (start + step * torch.arange(32)) % (cfg.vocab - 1) + 1
    return ids, torch.ones_like(ids, dtype=torch.bool), ids.clone()


def instruction_batch(cfg, g):
    seqs = []
    for _ in range(cfg.batch):
        n = int(torch.randint(6, 16, (1,), generator=g))
        p = torch.randint(1, cfg.vocab, (n,), generator=g)
        seqs.append((p, p.flip(0)[:5]))
    t = max(len(p) + len(r) for p, r in seqs)
    ids = torch.full((cfg.batch, t), PAD)
    labels = torch.full((cfg.batch, t), -100)
    for i, (p, r) in enumerate(seqs):
        ids[i, t - len(p) - len(r):] = torch.cat([p, r])
        labels[i, t - len(r):] = r
    return ids, ids != PAD, labels


def run_stage(name, model, opt, scaler, make_batch, steps, cfg, g):
    for s in range(steps):
        ids, mask, labels = make_batch(cfg, g)
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(ids, mask)
            loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)
        opt.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        gn = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
        if s % 6 == 0:
            print(f"{name} {s:3d} loss {loss.item():.4f} gnorm {gn.item():.3f} scale {scaler.get_scale():g}")


if __name__ == "__main__":
    cfg = Config()
    torch.manual_seed(17)
    g = torch.Generator().manual_seed(17)
    model = TinyGPT(cfg)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr, betas=(0.9, 0.95))
    scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)
    run_stage("pretrain", model, opt, scaler, corpus_batch, cfg.pretrain_steps, cfg, g)
    run_stage("tune", model, opt, scaler, instruction_batch, cfg.tune_steps, cfg, g)
