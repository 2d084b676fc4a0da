"""Keyword spotting on synthetic clips: per-clip normalised band energies, small conv net with BatchNorm."""
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn


@dataclass
class Config:
    clips: int = 192
    rate: int = 800
    bands: int = 16
    frames: int = 20
    classes: int = 4
    epochs: int = 5
    batch: int = 16
    lr: float = 3e-3


cfg = Config()
rng = np.random.default_rng(12)


def synth(word):
    t = np.arange(cfg.rate) / cfg.rate
    f = 40 + 60 * word + rng.normal(0, 4)
    return np.sin(2 * np.pi * f * t) * rng.uniform(0.4, 1.0) + rng.normal(0, 0.1, cfg.rate)


def band_energy(wave):
    hop = cfg.rate // cfg.frames
    out = np.zeros((cfg.bands, cfg.frames), np.float32)
    for k in range(cfg.frames):
        spec = np.abs(np.fft.rfft(wave[k * hop : (k + 1) * hop], n=64))
        out[:, k] = spec[: cfg.bands * 2].reshape(cfg.bands, 2).sum(1)
    return np.log1p(out)


def normalise(feat):
    return (feat - feat.mean()) / feat.std()


def build():
    xs, ys = [], []
    with np.errstate(all="ignore"):
        for i in range(cfg.clips):
            word = i % cfg.classes
            wave = synth(word)
            if i == 101:
                wave = np.zeros(cfg.rate)
            xs.append(normalise(band_energy(wave)))
            ys.append(word)
    return torch.from_numpy(np.stack(xs)).unsqueeze(1), torch.tensor(ys)


class Spotter(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
        )
        self.fc = nn.Linear(16, cfg.classes)

    def forward(self, x):
        return self.fc(self.body(x).flatten(1))


def run_epoch(model, x, y, opt, scaler):
    model.train()
    losses = []
    for idx in torch.randperm(len(x)).split(cfg.batch):
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(x[idx]).float(), y[idx])
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        losses.append(loss.item())
    return losses


@torch.no_grad()
def evaluate(model, x, y):
    model.eval()
    with torch.autocast("cpu", dtype=torch.float16):
        out = model(x).float()
    return nn.functional.cross_entropy(out, y).item(), (out.argmax(1) == y).float().mean().item()


def main():
    torch.manual_seed(3)
    x, y = build()
    train, valid = slice(0, 160), slice(160, None)
    model = Spotter()
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
    for epoch in range(cfg.epochs):
        losses = run_epoch(model, x[train], y[train], opt, scaler)
        vloss, acc = evaluate(model, x[valid], y[valid])
        print(f"epoch {epoch} train {losses[-1]:.4f} valid {vloss:.4f} acc {acc:.3f} scale {scaler.get_scale():g}")


main()
