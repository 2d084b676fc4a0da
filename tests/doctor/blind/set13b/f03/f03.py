"""Unsupervised sentence embeddings: two dropout views of one sentence are a pair (SimCSE style)."""
from dataclasses import dataclass

import torch
from torch import nn
import torch.nn.functional as F


@dataclass
class Config:
    vocab: int = 200
    dim: int = 48
    out: int = 32
    seq: int = 12
    batch: int = 32
    steps: int = 120
    tau: float = 0.05
    lr: float = 2e-3
    seed: int = 5


class Encoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.emb = nn.Embedding(cfg.vocab, cfg.dim)
        self.drop = nn.Dropout(0.1)
        self.mlp = nn.Sequential(nn.Linear(cfg.dim, 96), nn.Tanh(), nn.Linear(96, cfg.out))

    def forward(self, tok):
        h = self.drop(self.emb(tok)).mean(1) * tok.size(1) ** 0.5
        return self.mlp(self.drop(h))


class ContrastiveLoss(nn.Module):
    def __init__(self, tau):
        super().__init__()
        self.tau = tau

    def forward(self, za, zb):
        za = F.normalize(za, dim=-1)
        zb = F.normalize(zb, dim=-1)
        sim = za @ zb.t()
        e = torch.exp(sim / self.tau)
        pos = e.diagonal()
        return -torch.log(pos / e.sum(1)).mean()


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        torch.manual_seed(cfg.seed)
        self.model = Encoder(cfg)
        self.crit = ContrastiveLoss(cfg.tau)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=cfg.lr)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 10)

    def batch(self):
        c = self.cfg
        topic = torch.randint(0, c.vocab - 20, (c.batch, 1))
        return topic + torch.randint(0, 20, (c.batch, c.seq))

    def step(self, tok):
        self.opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            za, zb = self.model(tok), self.model(tok)
            loss = self.crit(za, zb)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.opt)
        nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
        self.scaler.step(self.opt)
        self.scaler.update()
        return loss.item()

    def fit(self):
        self.model.train()
        window = []
        for i in range(self.cfg.steps):
            window.append(self.step(self.batch()))
            if i % 20 == 19:
                print(f"step {i + 1} loss {sum(window) / len(window):.4f}")
                window = []


if __name__ == "__main__":
    Trainer(Config()).fit()
