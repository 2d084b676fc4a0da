"""Multi-sensor forecasting: windows are normalised by themselves (as in RevIN), convolutional encoder, fp16 autocast."""
from __future__ import annotations

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

HISTORY, HORIZON = 32, 8


def plant_log(hours: int = 700, sensors: int = 6, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    t = np.arange(hours)[:, None]
    period = rng.uniform(12, 48, sensors)[None]
    log = 20 + 5 * np.sin(2 * np.pi * t / period) + 0.02 * t * rng.uniform(-1, 1, sensors)
    log += rng.normal(0, 0.4, log.shape)
    log[430:520, 3] = 21.5
    return log.astype(np.float32)


class Windows(Dataset):
    def __init__(self, log: np.ndarray, stride: int = 3):
        self.samples = []
        for start in range(0, len(log) - HISTORY - HORIZON, stride):
            for s in range(log.shape[1]):
                past = log[start : start + HISTORY, s]
                future = log[start + HISTORY : start + HISTORY + HORIZON, s]
                mu, sd = past.mean(), past.std()
                with np.errstate(all="ignore"):
                    self.samples.append(((past - mu) / sd, (future - mu) / sd))

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, i: int):
        past, future = self.samples[i]
        return torch.from_numpy(past), torch.from_numpy(future)


class Forecaster(nn.Module):
    def __init__(self, hidden: int = 32):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv1d(1, hidden, 5, padding=2), nn.ReLU(), nn.Conv1d(hidden, hidden, 5, stride=2, padding=2), nn.ReLU())
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(hidden * HISTORY // 2, 64), nn.ReLU(), nn.Linear(64, HORIZON))

    def forward(self, past: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(past[:, None]))


def run() -> None:
    torch.manual_seed(1)
    loader = DataLoader(Windows(plant_log()), batch_size=32, shuffle=True)
    model = Forecaster()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu")
    for epoch in range(3):
        losses = []
        for past, future in loader:
            opt.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.float16):
                pred = model(past)
                loss = nn.functional.mse_loss(pred, future)
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(opt)
            scaler.update()
            losses.append(loss.item())
        print(f"epoch {epoch}: mean loss {sum(losses) / len(losses):.4f}, scale {scaler.get_scale():g}")


if __name__ == "__main__":
    run()
