"""Keyword spotting on synthetic tones: filter-bank frontend + small conv net."""
import logging
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from frontend import LogMel

logging.basicConfig(level=logging.INFO, format="%(message)s")
log = logging.getLogger("kws")


@dataclass
class Config:
    sample_rate: int = 8000
    seconds: float = 0.25
    classes: int = 6
    batch_size: int = 32
    steps: int = 80
    lr: float = 2e-3
    amp: bool = True


class KeywordNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.frontend = LogMel(cfg.sample_rate, n_fft=256, hop=80, n_mels=24)
        self.body = nn.Sequential(
            nn.Conv1d(24, 48, 5, padding=2), nn.BatchNorm1d(48), nn.ReLU(),
            nn.Conv1d(48, 48, 5, stride=2, padding=2), nn.BatchNorm1d(48), nn.ReLU(),
        )
        self.fc = nn.Linear(48, cfg.classes)

    def forward(self, wav):
        feats = self.frontend(wav)
        return self.fc(self.body(feats).mean(-1))


def make_batch(cfg, g):
    y = torch.randint(cfg.classes, (cfg.batch_size,), generator=g)
    t = torch.arange(int(cfg.sample_rate * cfg.seconds)) / cfg.sample_rate
    f0 = 250.0 * (1.5 ** y.float())[:, None] * (1 + 0.03 * torch.randn(cfg.batch_size, 1, generator=g))
    gain = 0.05 + 0.25 * torch.rand(cfg.batch_size, 1, generator=g)
    wav = gain * torch.sin(2 * torch.pi * f0 * t) + 0.01 * torch.randn(cfg.batch_size, len(t), generator=g)
    pcm = (wav.clamp(-1, 1) * 32767).to(torch.int16)
    return pcm, y


def train(cfg):
    g = torch.Generator().manual_seed(3)
    torch.manual_seed(3)
    model = KeywordNet(cfg)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    scaler = torch.amp.GradScaler("cpu", enabled=cfg.amp)
    for step in range(cfg.steps):
        pcm, y = make_batch(cfg, g)
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16, enabled=cfg.amp):
            logits = model(pcm.float())
            loss = F.cross_entropy(logits, y)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        if step % 20 == 0 or step == cfg.steps - 1:
            acc = (logits.argmax(-1) == y).float().mean()
            log.info("step %3d loss %.4f acc %.2f scale %g", step, loss.item(), acc, scaler.get_scale())


if __name__ == "__main__":
    train(Config())
