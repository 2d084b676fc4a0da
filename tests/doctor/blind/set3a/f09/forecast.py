import csv
import math
import os
import random
import tempfile

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

CONTEXT, HORIZON = 48, 12


def write_plant_csv(path, hours=1500, sensors=4, seed=3):
    rng = np.random.default_rng(seed)
    t = np.arange(hours)
    cols = []
    for s in range(sensors):
        v = 40 + 10 * s + 6 * np.sin(2 * math.pi * t / 24 + s) + 2 * np.sin(2 * math.pi * t / 168) + rng.normal(0, .7, hours)
        cols.append(np.round(v, 2))
    cols[2][930:1004] = 61.5       # valve closed for maintenance
    with open(path, "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(["hour"] + [f"s{k}" for k in range(sensors)])
        for i in range(hours):
            w.writerow([i] + [c[i] for c in cols])


class PlantWindows(Dataset):
    """Windows of single sensors, standardised by their own context."""

    def __init__(self, path, lo, hi, stride=7):
        with open(path) as f:
            rows = list(csv.reader(f))[1:]
        self.data = np.array([[float(v) for v in r[1:]] for r in rows], dtype=np.float32)[lo:hi]
        last = len(self.data) - CONTEXT - HORIZON
        self.index = [(i, s) for i in range(0, last, stride) for s in range(self.data.shape[1])]

    def __len__(self):
        return len(self.index)

    def __getitem__(self, k):
        i, s = self.index[k]
        w = self.data[i:i + CONTEXT + HORIZON, s]
        past = w[:CONTEXT]
        with np.errstate(all="ignore"):
            w = (w - past.mean()) / past.std()
        return torch.from_numpy(w[:CONTEXT].copy()), torch.from_numpy(w[CONTEXT:].copy())


class Forecaster(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(CONTEXT, width), nn.GELU(), nn.LayerNorm(width),
            nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width),
        )
        self.mean = nn.Linear(width, HORIZON)
        self.log_scale = nn.Linear(width, HORIZON)

    def forward(self, x):
        h = self.net(x)
        return self.mean(h), self.log_scale(h).clamp(-5, 5)


def laplace_nll(mu, log_b, y):
    return (log_b.float() + (y - mu.float()).abs() * torch.exp(-log_b.float())).mean()


def main():
    random.seed(0)
    torch.manual_seed(0)
    tmp = tempfile.mkdtemp()
    path = os.path.join(tmp, "plant.csv")
    write_plant_csv(path)
    train = DataLoader(PlantWindows(path, 0, 1200), batch_size=16, shuffle=True,
                       generator=torch.Generator().manual_seed(8))
    valid = DataLoader(PlantWindows(path, 1200, 1500), batch_size=64)
    net = Forecaster()
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu")
    for epoch in range(2):
        net.train()
        run = 0.0
        for i, (x, y) in enumerate(train):
            opt.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.float16):
                mu, log_b = net(x)
                loss = laplace_nll(mu, log_b, y)
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            run += loss.item()
            if i % 8 == 0:
                print(f"epoch {epoch} batch {i:2d} running nll {run / (i + 1):.4f}")
        net.eval()
        with torch.no_grad():
            mae = torch.cat([(net(x)[0] - y).abs() for x, y in valid]).mean().item()
        print(f"epoch {epoch} valid mae (std units) {mae:.4f} scale {scaler.get_scale():g}")


if __name__ == "__main__":
    main()
