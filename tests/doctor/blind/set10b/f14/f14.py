"""Intent head on cached sentence embeddings."""
import contextlib
import logging
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

from features import CachedFeatures

log = logging.getLogger("intent")


@dataclass
class Config:
    dim: int = 96
    classes: int = 6
    hidden: int = 128
    batch: int = 64
    epochs: int = 4
    lr: float = 1e-3
    precision: str = "fp16-mixed"
    seed: int = 10


class Precision:
    """Picks the context for a precision string."""

    def __init__(self, name):
        self.name = name
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 12, enabled=name == "fp16-mixed")

    def context(self):
        if self.name in ("16-mixed", "fp16"):
            return torch.autocast("cpu", dtype=torch.float16)
        if self.name in ("bf16-mixed", "bf16"):
            return torch.autocast("cpu", dtype=torch.bfloat16)
        return contextlib.nullcontext()


class IntentHead(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(cfg.dim, cfg.hidden), nn.GELU(), nn.Dropout(0.1),
            nn.Linear(cfg.hidden, cfg.classes),
        )

    def forward(self, x):
        return self.net(x)


def fit(cfg):
    torch.manual_seed(cfg.seed)
    precision = Precision(cfg.precision)
    g = torch.Generator().manual_seed(cfg.seed)
    train = DataLoader(CachedFeatures(1200, cfg.dim, cfg.classes, 1), cfg.batch, shuffle=True, generator=g)
    val = DataLoader(CachedFeatures(300, cfg.dim, cfg.classes, 2), cfg.batch)
    head = IntentHead(cfg)
    opt = torch.optim.AdamW(head.parameters(), lr=cfg.lr)
    for epoch in range(cfg.epochs):
        head.train()
        total = 0.0
        for x, y in train:
            opt.zero_grad()
            with precision.context():
                loss = F.cross_entropy(head(x), y)
            precision.scaler.scale(loss).backward()
            precision.scaler.step(opt)
            precision.scaler.update()
            total += loss.item() * len(y)
        head.eval()
        right = 0
        with torch.no_grad():
            for x, y in val:
                with precision.context():
                    right += (head(x).argmax(1) == y).sum().item()
        log.info("epoch %d loss %.4f acc %.3f", epoch, total / len(train.dataset), right / len(val.dataset))
    return head


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    fit(Config())
