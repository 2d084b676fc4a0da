#!/usr/bin/env python
"""Two-tower retrieval on implicit feedback."""
import json
import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F

from losses import TwoTowerLoss

CFG = dict(users=400, items=150, dim=32, batch=64, steps=140, lr=5e-3, seed=3)


class Tower(nn.Module):
    def __init__(self, n, dim):
        super().__init__()
        self.emb = nn.Embedding(n, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, dim * 2), nn.GELU(), nn.Linear(dim * 2, dim))

    def forward(self, ids):
        return F.normalize(self.mlp(self.emb(ids)), dim=-1)


class TwoTower(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.user = Tower(cfg["users"], cfg["dim"])
        self.item = Tower(cfg["items"], cfg["dim"])

    def forward(self, u, i):
        return self.user(u), self.item(i)


def make_interactions(cfg):
    g = torch.Generator().manual_seed(cfg["seed"])
    taste = torch.randint(0, 10, (cfg["users"],), generator=g)
    genre = torch.arange(cfg["items"]) % 10
    pairs = []
    for u in range(cfg["users"]):
        liked = (genre == taste[u]).nonzero().flatten()
        pick = liked[torch.randperm(len(liked), generator=g)[:8]]
        pairs += [(u, int(i)) for i in pick]
    return torch.tensor(pairs)


@torch.no_grad()
def recall_at(model, pairs, cfg, k=20):
    model.eval()
    scores = model.user(torch.arange(cfg["users"])) @ model.item(torch.arange(cfg["items"])).t()
    top = scores.topk(k, dim=1).indices
    hit = (top[pairs[:, 0]] == pairs[:, 1:2]).any(1).float().mean().item()
    model.train()
    return hit


def main(cfg):
    torch.manual_seed(cfg["seed"])
    pairs = make_interactions(cfg)
    freq = torch.bincount(pairs[:, 1], minlength=cfg["items"]).float().add(1)
    freq = freq / freq.mean()

    model = TwoTower(cfg)
    criterion = TwoTowerLoss(temperature=0.05)
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg["lr"], weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, cfg["lr"], total_steps=cfg["steps"])
    scaler = torch.amp.GradScaler("cpu")

    log = []
    for step in range(cfg["steps"]):
        rows = pairs[torch.randint(0, len(pairs), (cfg["batch"],))]
        with torch.autocast("cpu", dtype=torch.float16):
            u, i = model(rows[:, 0], rows[:, 1])
            loss = criterion(u, i, rows[:, 1], freq)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scale = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        if scaler.get_scale() >= scale:
            scheduler.step()
        log.append({"step": step, "loss": loss.item(), "scale": scaler.get_scale()})
        if step % 20 == 0:
            print(log[-1])
    print("recall@20", recall_at(model, pairs, cfg))
    out = os.path.join(tempfile.mkdtemp(), "log.json")
    with open(out, "w") as f:
        json.dump(log, f)


if __name__ == "__main__":
    main(CFG)
