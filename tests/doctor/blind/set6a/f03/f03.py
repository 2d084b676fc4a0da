"""Next-item ranking from a user's click history (bag of items + MLP)."""
import random
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence


@dataclass
class Config:
    n_items: int = 300
    dim: int = 32
    batch_size: int = 64
    steps: int = 120
    lr: float = 3e-3
    max_hist: int = 12
    seed: int = 11


class HistoryEncoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.items = nn.Embedding(cfg.n_items + 1, cfg.dim, padding_idx=0)
        self.proj = nn.Sequential(nn.Linear(cfg.dim, cfg.dim), nn.ReLU(), nn.Linear(cfg.dim, cfg.dim))
        self.user = nn.Linear(4, cfg.dim)
        self.out = nn.Linear(cfg.dim, cfg.n_items + 1)

    def pool(self, h, ids):
        mask = (ids > 0).unsqueeze(-1).to(h.dtype)
        return (h * mask).sum(1) / (mask.sum(1) + 1e-8)

    def forward(self, ids, profile):
        h = self.proj(self.items(ids))
        return self.out(torch.relu(self.pool(h, ids) + self.user(profile)))


class Clicks:
    def __init__(self, cfg):
        self.cfg = cfg
        self.rng = random.Random(cfg.seed)
        self.seen = 0

    def sample(self):
        c = self.cfg
        self.seen += 1
        cold = self.seen > 2500 and self.rng.random() < 0.01
        n = 0 if cold else self.rng.randint(2, c.max_hist)
        group = self.rng.randrange(10)
        hist = [1 + group * 30 + self.rng.randrange(30) for _ in range(n)]
        target = 1 + group * 30 + self.rng.randrange(5)
        profile = [float(group == k) for k in range(4)]
        return torch.tensor(hist, dtype=torch.long), torch.tensor(profile), target

    def batch(self):
        rows = [self.sample() for _ in range(self.cfg.batch_size)]
        ids = pad_sequence([r[0] for r in rows], batch_first=True)
        return ids, torch.stack([r[1] for r in rows]), torch.tensor([r[2] for r in rows])


def train(cfg):
    torch.manual_seed(cfg.seed)
    data, net = Clicks(cfg), HistoryEncoder(cfg)
    opt = torch.optim.Adam(net.parameters(), lr=cfg.lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)
    running = None
    for step in range(cfg.steps):
        ids, profile, target = data.batch()
        with torch.autocast("cpu", dtype=torch.float16):
            logits = net(ids, profile)
        loss = F.cross_entropy(logits.float(), target)
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        running = loss.item() if running is None else 0.9 * running + 0.1 * loss.item()
        if step % 15 == 0:
            print(f"{step:4d} loss {running:.4f} scale {scaler.get_scale():g}")
    print("final", running)


if __name__ == "__main__":
    train(Config())
