import os
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "f02"))
from data import PAD, SessionPairs  # noqa: E402
from ops import info_nce, masked_mean, unit  # noqa: E402


class Tower(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=PAD)
        self.proj = nn.Linear(dim, dim, bias=False)

    def forward(self, ids):
        pooled = masked_mean(self.emb(ids), ids != PAD)
        return unit(self.proj(pooled))


class TwoTower(nn.Module):
    def __init__(self, vocab=120, dim=32):
        super().__init__()
        self.query = Tower(vocab, dim)
        self.item = Tower(vocab, dim)

    def forward(self, q, d):
        return self.query(q), self.item(d)


class Trainer:
    def __init__(self, model, loader, lr=5e-3):
        self.model, self.loader = model, loader
        self.opt = torch.optim.Adam(model.parameters(), lr=lr)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=256.0)

    def epoch(self, n):
        total, bad, seen = 0.0, 0, 0
        for q, d in self.loader:
            self.opt.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.float16):
                a, b = self.model(q, d)
                loss = info_nce(a, b)
            self.scaler.scale(loss).backward()
            self.scaler.step(self.opt)
            self.scaler.update()
            total += loss.item()
            bad += int(not torch.isfinite(loss))
            seen += 1
        print(f"epoch {n}: loss {total / seen:.4f}, {bad} of {seen} batches not finite, scale {self.scaler.get_scale():g}")


def main():
    torch.manual_seed(11)
    loader = DataLoader(SessionPairs(), batch_size=64, shuffle=True)
    t = Trainer(TwoTower(), loader)
    for n in range(6):
        t.epoch(n)


main()
