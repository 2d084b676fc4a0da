"""Keyword spotting on short clips (8 keywords), mixed precision."""
import math
import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from frontend import LogMel

CFG = dict(sr=4000, seconds=0.5, classes=8, batch=16, epochs=3, lr=2e-3, seed=7)


def seed_all(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


class KeywordClips(Dataset):
    """16 bit PCM clips, two chirps per keyword."""

    def __init__(self, n, cfg, seed):
        rng = np.random.default_rng(seed)
        t = np.arange(int(cfg["sr"] * cfg["seconds"])) / cfg["sr"]
        self.items = []
        for i in range(n):
            label = int(rng.integers(cfg["classes"]))
            f0 = 200 + 150 * label
            phase = rng.uniform(0, 2 * math.pi)
            sweep = f0 * t + 0.5 * (80 if label % 2 else -80) * t * t
            wave = np.sin(2 * math.pi * sweep + phase)
            wave *= np.minimum(1.0, np.arange(len(t)) / rng.integers(100, 600))
            wave += 0.1 * rng.standard_normal(len(t))
            pcm = np.clip(wave * rng.uniform(60, 250), -32768, 32767).astype(np.int16)
            self.items.append((pcm, label))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        pcm, label = self.items[i]
        return torch.from_numpy(pcm.astype(np.float32)), label


class KeywordNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.frontend = LogMel(cfg["sr"])
        self.body = nn.Sequential(
            nn.Conv1d(24, 48, 5, padding=2), nn.BatchNorm1d(48), nn.ReLU(),
            nn.Conv1d(48, 48, 5, stride=2, padding=2), nn.BatchNorm1d(48), nn.ReLU(),
            nn.AdaptiveAvgPool1d(1), nn.Flatten())
        self.head = nn.Linear(48, cfg["classes"])

    def forward(self, wav):
        return self.head(self.body(self.frontend(wav)))


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    hit = total = 0
    for wav, label in loader:
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(wav)
        hit += (logits.argmax(1) == label).sum().item()
        total += len(label)
    model.train()
    return hit / total


def main():
    seed_all(CFG["seed"])
    train = DataLoader(KeywordClips(256, CFG, 1), CFG["batch"], shuffle=True, drop_last=True)
    valid = DataLoader(KeywordClips(64, CFG, 2), CFG["batch"])
    model = KeywordNet(CFG)
    opt = torch.optim.AdamW(model.parameters(), lr=CFG["lr"])
    scaler = torch.amp.GradScaler("cpu")
    loss_fn = nn.CrossEntropyLoss(label_smoothing=0.05)
    for epoch in range(CFG["epochs"]):
        running = 0.0
        for step, (wav, label) in enumerate(train):
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(wav), label)
            opt.zero_grad(set_to_none=True)
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            scaler.step(opt)
            scaler.update()
            running += loss.item()
        print(f"epoch {epoch} loss {running / len(train):.4f} acc {evaluate(model, valid):.3f} "
              f"scale {scaler.get_scale():g}")


if __name__ == "__main__":
    main()
