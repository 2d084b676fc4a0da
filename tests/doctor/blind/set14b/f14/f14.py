from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

from callbacks import LossScaleFloor, Progress


@dataclass
class Config:
    words: int = 60
    tags: int = 6
    length: int = 32
    batch: int = 32
    dim: int = 32
    lr: float = 0.003
    epochs: int = 5
    min_loss_scale: float = 65536.0
    seed: int = 0


class Tagger(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.emb = nn.Embedding(cfg.words, cfg.dim)
        self.conv = nn.Conv1d(cfg.dim, 2 * cfg.dim, 5, padding=2)
        self.mid = nn.Linear(2 * cfg.dim, cfg.dim)
        self.out = nn.Linear(cfg.dim, cfg.tags)

    def forward(self, ids):
        h = F.relu(self.conv(self.emb(ids).transpose(1, 2))).transpose(1, 2)
        return self.out(F.relu(self.mid(h)))


def corpus(cfg, n, g):
    ids = torch.randint(cfg.words, (n, cfg.length), generator=g)
    base = ids % cfg.tags
    shifted = torch.where(torch.roll(ids, 1, 1) < cfg.words // 3, (base + 1) % cfg.tags, base)
    return ids, shifted


class Loop:
    def __init__(self, cfg, callbacks):
        self.cfg, self.callbacks = cfg, callbacks
        g = torch.Generator().manual_seed(cfg.seed)
        self.ids, self.tags = corpus(cfg, 640, g)
        self.val = corpus(cfg, 64, g)
        self.model = Tagger(cfg)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=cfg.lr)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=cfg.min_loss_scale)
        self.last_loss = None

    @torch.no_grad()
    def accuracy(self):
        ids, tags = self.val
        return (self.model(ids).argmax(-1) == tags).float().mean().item()

    def train_batch(self, idx):
        with torch.autocast("cpu", dtype=torch.float16):
            logits = self.model(self.ids[idx])
            loss = F.cross_entropy(logits.flatten(0, 1), self.tags[idx].flatten(), reduction="sum")
        self.opt.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt)
        self.scaler.update()
        self.last_loss = loss.item() / self.tags[idx].numel()

    def fit(self):
        step = 0
        for epoch in range(self.cfg.epochs):
            for idx in torch.randperm(len(self.ids)).split(self.cfg.batch):
                self.train_batch(idx)
                for cb in self.callbacks:
                    cb.after_step(self, step)
                step += 1
            for cb in self.callbacks:
                cb.after_epoch(self, epoch)


if __name__ == "__main__":
    cfg = Config()
    torch.manual_seed(cfg.seed)
    Loop(cfg, [LossScaleFloor(cfg.min_loss_scale), Progress()]).fit()
