"""Forecast the next reading of a sensor network in which many readings are missing."""
import torch
import torch.nn as nn


def sensor_series(n_steps=600, n_sensors=12, seed=8):
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(n_steps).float()[:, None]
    freq = 0.05 + 0.02 * torch.rand(n_sensors, generator=g)
    phase = 6.28 * torch.rand(n_sensors, generator=g)
    clean = torch.sin(t * freq + phase) + 0.3 * torch.sin(t * 0.01)
    noisy = clean + 0.05 * torch.randn(clean.shape, generator=g)
    missing = torch.rand(clean.shape, generator=g) < 0.2
    missing[200:230, 3] = True
    missing[:, 11] = torch.rand(n_steps, generator=g) < 0.7
    return noisy.masked_fill(missing, float("nan"))


class Windows(torch.utils.data.Dataset):
    def __init__(self, series, length=24):
        self.series, self.length = series, length

    def __len__(self):
        return len(self.series) - self.length - 1

    def __getitem__(self, i):
        return self.series[i:i + self.length], self.series[i + self.length]


class Forecaster(nn.Module):
    """GRU over (value, observed?) pairs."""

    def __init__(self, n, width=48):
        super().__init__()
        self.lift = nn.Linear(2 * n, width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.out = nn.Linear(width, n)

    def forward(self, window):
        seen = torch.isfinite(window)
        filled = torch.nan_to_num(window, nan=0.0)
        h = torch.relu(self.lift(torch.cat([filled, seen.to(filled.dtype)], -1)))
        _, last = self.rnn(h)
        return self.out(last[0])


def masked_mse(pred, target):
    seen = torch.isfinite(target)
    diff = (pred - target)[seen]
    return diff.pow(2).mean()


def evaluate(model, loader):
    model.eval()
    errs = []
    with torch.no_grad():
        for w, y in loader:
            errs.append(masked_mse(model(w), y))
    model.train()
    return torch.stack(errs).mean().item()


def main():
    torch.manual_seed(8)
    series = sensor_series()
    train = torch.utils.data.DataLoader(Windows(series[:480]), batch_size=48, shuffle=True)
    test = torch.utils.data.DataLoader(Windows(series[480:]), batch_size=64)
    model = Forecaster(series.size(1))
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(5):
        total = 0.0
        for window, target in train:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                pred = model(window)
            loss = masked_mse(pred.float(), target)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        mse = evaluate(model, test)
        print(f"epoch {epoch} train {total / len(train):.4f} test {mse:.4f}")


if __name__ == "__main__":
    main()
