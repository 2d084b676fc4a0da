"""Next-day direction from a price panel kept as a csv file."""
import csv
import os
import tempfile

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def write_panel(path, days=700, tickers=6):
    rng = np.random.default_rng(21)
    r = rng.normal(0, 0.012, (days, tickers))
    for t in range(1, days):
        r[t] += 0.35 * r[t - 1]
    close = 40 * np.exp(np.cumsum(r, 0))
    volume = rng.lognormal(9, 0.4, (days, tickers)).round()
    volume[515, 2] = 0
    with open(path, "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(["day"] + [f"c{i}" for i in range(tickers)] + [f"v{i}" for i in range(tickers)])
        for d in range(days):
            w.writerow([d] + [f"{v:.4f}" for v in close[d]] + [int(v) for v in volume[d]])


def read_panel(path):
    raw = np.loadtxt(path, delimiter=",", skiprows=1)
    k = (raw.shape[1] - 1) // 2
    return raw[:, 1:1 + k], raw[:, 1 + k:]


def features(close, volume, window=10):
    with np.errstate(all="ignore"):
        ret = np.diff(np.log(close), axis=0) * 100
        vol = np.diff(np.log(volume), axis=0)
    xs, ys = [], []
    for t in range(window, len(ret) - 1):
        xs.append(np.concatenate([ret[t - window:t].ravel(), vol[t - window:t].ravel()]))
        ys.append((ret[t] > 0).astype(np.float32))
    return np.stack(xs).astype(np.float32), np.stack(ys)


class Mixer(nn.Module):
    def __init__(self, d, k):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d, 96), nn.ReLU(), nn.Dropout(0.1),
                                 nn.Linear(96, 48), nn.ReLU(), nn.Linear(48, k))

    def forward(self, x):
        return self.net(x)


torch.manual_seed(0)
folder = tempfile.mkdtemp()
panel = os.path.join(folder, "panel.csv")
write_panel(panel)
close, volume = read_panel(panel)
x, y = features(close, volume)
split = int(0.85 * len(x))
train = DataLoader(TensorDataset(torch.from_numpy(x[:split]), torch.from_numpy(y[:split])),
                   batch_size=32, shuffle=False)
valid = torch.from_numpy(x[split:]), torch.from_numpy(y[split:])

model = Mixer(x.shape[1], y.shape[1])
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
criterion = nn.BCEWithLogitsLoss()

for epoch in range(3):
    running = 0.0
    for i, (xb, yb) in enumerate(train):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = criterion(model(xb), yb)
        loss.backward()
        optimizer.step()
        running += loss.item()
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        hit = ((model(valid[0]) > 0).float() == valid[1]).float().mean()
    print(f"epoch {epoch}: train {running / len(train):.4f}  valid hit rate {hit:.3f}")
