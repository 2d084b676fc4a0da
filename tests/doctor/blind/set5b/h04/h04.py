"""Vitals forecasting with irregular sampling: the array keeps NaN where nothing
was measured, like the hospital export does."""
import numpy as np
import torch
import torch.nn as nn

CHANNELS = 5


def export(n=160, hours=24, seed=0):
    rng = np.random.default_rng(seed)
    t = np.arange(hours)
    phase = rng.uniform(0, 6.28, (n, CHANNELS, 1))
    level = rng.normal(0, 1, (n, CHANNELS, 1))
    series = level + np.sin(0.5 * t + phase) + 0.1 * rng.normal(size=(n, CHANNELS, hours))
    target = series.mean(1)[:, -1] * 0.5 + level[:, 0, 0]
    rate = np.array([0.9, 0.7, 0.5, 0.2, 0.05])[None, :, None]
    series[rng.random(series.shape) > rate] = np.nan
    series[::17, 4] = np.nan
    return series.astype(np.float32).transpose(0, 2, 1), target.astype(np.float32)


class Standardise:
    def __init__(self, train):
        flat = train.reshape(-1, train.shape[-1])
        self.mean = np.nanmean(flat, 0)
        self.std = np.nanstd(flat, 0) + 1e-3

    def __call__(self, x):
        return (x - self.mean) / self.std


class DecayGRU(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.cell = nn.GRUCell(2 * CHANNELS, width)
        self.decay = nn.Linear(CHANNELS, CHANNELS)
        self.head = nn.Linear(width, 1)
        self.width = width

    def forward(self, x):
        present = ~torch.isnan(x)
        filled = torch.where(present, x, torch.zeros_like(x))
        last = torch.zeros_like(filled[:, 0])
        gap = torch.zeros_like(last)
        h = x.new_zeros(len(x), self.width)
        for t in range(x.shape[1]):
            m = present[:, t].float()
            keep = torch.exp(-torch.relu(self.decay(gap).float()))
            value = m * filled[:, t] + (1 - m) * keep * last
            h = self.cell(torch.cat([value, m], -1), h)
            last = torch.where(present[:, t], filled[:, t], last)
            gap = torch.where(present[:, t], torch.zeros_like(gap), gap + 0.1)
        return self.head(h.float()).squeeze(-1)


def coverage(x):
    with np.errstate(all="ignore"):
        per_patient = np.nanmean(np.where(np.isnan(x), np.nan, 1.0), axis=1)
    return per_patient


if __name__ == "__main__":
    torch.manual_seed(0)
    x, y = export()
    std = Standardise(x[:128])
    x = std(x)
    print("channels never measured per patient:", int(np.isnan(coverage(x)).sum()))
    x, y = torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y)
    net = DecayGRU()
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    for epoch in range(8):
        net.train()
        order, total = torch.randperm(128), 0.0
        for idx in order.split(32):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                pred = net(x[idx])
            loss = nn.functional.smooth_l1_loss(pred.float(), y[idx])
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            opt.step()
            total += loss.item() * len(idx)
        net.eval()
        with torch.no_grad():
            mae = (net(x[128:]) - y[128:]).abs().mean()
        print(f"epoch {epoch} train {total / 128:.4f} valid mae {mae:.4f}")
