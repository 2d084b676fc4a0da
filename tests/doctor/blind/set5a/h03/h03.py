"""Sensor forecasting with gaps: missing readings are NaN in the raw series."""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


@dataclass
class Setup:
    sensors: int = 6
    window: int = 24
    horizon: int = 6
    hidden: int = 48
    epochs: int = 5
    batch: int = 32
    lr: float = 3e-3


class GappySeries(Dataset):
    def __init__(self, cfg, length=700, seed=0):
        g = torch.Generator().manual_seed(seed)
        t = torch.arange(length).float()[:, None]
        phase = torch.rand(cfg.sensors, generator=g) * 2 * math.pi
        period = 10 + 20 * torch.rand(cfg.sensors, generator=g)
        raw = torch.sin(2 * math.pi * t / period + phase) + 0.1 * torch.randn(length, cfg.sensors, generator=g)
        raw[torch.rand(length, cfg.sensors, generator=g) < 0.15] = float("nan")
        raw[300:340, 2] = float("nan")
        self.raw, self.cfg = raw, cfg
        self.mean = raw.nanmean(0)
        self.std = (raw - self.mean).pow(2).nanmean(0).sqrt()

    def __len__(self):
        return len(self.raw) - self.cfg.window - self.cfg.horizon

    def __getitem__(self, i):
        w = (self.raw[i:i + self.cfg.window + self.cfg.horizon] - self.mean) / self.std
        return w[:self.cfg.window], w[self.cfg.window:]


class Model(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.inp = nn.Linear(cfg.sensors * 2, cfg.hidden)
        self.net = nn.Sequential(
            nn.Flatten(), nn.Linear(cfg.hidden * cfg.window, 128), nn.SiLU(),
            nn.Linear(128, cfg.horizon * cfg.sensors))

    def forward(self, x):
        seen = ~torch.isnan(x)
        x = torch.cat([torch.nan_to_num(x), seen.float()], dim=-1)
        return self.net(torch.relu(self.inp(x))).view(-1, self.cfg.horizon, self.cfg.sensors)


def masked_mse(pred, target):
    ok = torch.isfinite(target)
    err = pred - torch.where(ok, target, torch.zeros_like(target))
    return (err.pow(2) * ok).sum() / ok.sum().clamp(min=1)


def main():
    cfg = Setup()
    torch.manual_seed(0)
    loader = DataLoader(GappySeries(cfg), batch_size=cfg.batch, shuffle=True)
    model = Model(cfg)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr)
    for epoch in range(cfg.epochs):
        total, naive = 0.0, float("nan")
        for x, y in loader:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                pred = model(x)
            loss = masked_mse(pred.float(), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
            naive = (y - x[:, -1:]).abs().mean().item()
        print(f"epoch {epoch} mse {total / len(loader):.4f} naive mae of last batch {naive:.3f}")


if __name__ == "__main__":
    main()
