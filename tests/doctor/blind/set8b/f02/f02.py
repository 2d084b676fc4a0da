"""Keyword spotting on one-dimensional signals; can go on from an earlier run."""
import argparse
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

HERE = Path(__file__).resolve().parent


def make_signals(n, classes, length, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(classes, (n,), generator=g)
    t = torch.linspace(0, 1, length)
    phase = torch.rand(n, 1, generator=g) * 6.28
    x = torch.sin(6.28 * (y[:, None] + 2) * t + phase) + 0.8 * torch.randn(n, length, generator=g)
    return TensorDataset(x[:, None], y)


class Spotter(nn.Module):
    def __init__(self, width=24, classes=6):
        super().__init__()
        self.stem = nn.Conv1d(1, width, 9, stride=2, padding=4)
        self.mid = nn.Conv1d(width, width * 2, 5, stride=2, padding=2)
        self.norm = nn.GroupNorm(4, width * 2)
        self.head = nn.Linear(width * 2, classes)

    def forward(self, x):
        h = F.relu(self.stem(x))
        h = F.relu(self.norm(self.mid(h)))
        return self.head(h.amax(-1))


def build(cfg):
    return Spotter(cfg["width"], cfg["classes"])


class Runner:
    def __init__(self, cfg, lr, resume=None):
        self.cfg = cfg
        self.model = build(cfg)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr, weight_decay=0.01)
        self.epoch = 0
        if resume is not None:
            self.restore(resume)
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 4, 0.7)

    def restore(self, path):
        state = torch.load(path)
        self.cfg = state["cfg"]
        self.model = build(self.cfg)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.epoch = state["epoch"] + 1
        print(f"resumed {path.name} at epoch {self.epoch}")

    def save(self, path):
        torch.save({"cfg": self.cfg, "model": self.model.state_dict(),
                    "optimizer": self.optimizer.state_dict(), "epoch": self.epoch}, path)

    def one_epoch(self, loader):
        self.model.train()
        losses = []
        for x, y in loader:
            self.optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = F.cross_entropy(self.model(x), y, label_smoothing=0.05)
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
            self.optimizer.step()
            losses.append(loss.item())
        self.schedule.step()
        return sum(losses) / len(losses)

    @torch.no_grad()
    def accuracy(self, loader):
        self.model.eval()
        hits = 0
        for x, y in loader:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                hits += (self.model(x).argmax(-1) == y).sum().item()
        return hits / len(loader.dataset)

    def fit(self, train, val, epochs):
        end = self.epoch + epochs
        while self.epoch < end:
            loss = self.one_epoch(train)
            print(f"epoch {self.epoch}: loss {loss:.4f} acc {self.accuracy(val):.3f} lr {self.schedule.get_last_lr()[0]:.2e}")
            self.epoch += 1


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=6)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--resume", default=None)
    ap.add_argument("--save", default=None)
    args = ap.parse_args()
    torch.manual_seed(3)
    cfg = {"width": 24, "classes": 6}
    runner = Runner(cfg, args.lr, HERE / args.resume if args.resume else None)
    train = DataLoader(make_signals(1536, 6, 160, 1), 64, shuffle=True)
    val = DataLoader(make_signals(384, 6, 160, 2), 128)
    runner.fit(train, val, args.epochs)
    if args.save:
        runner.epoch -= 1
        runner.save(HERE / args.save)
