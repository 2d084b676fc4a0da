"""Next-day return forecast from a window of past returns (dilated causal convolutions)."""
import io

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def price_feed(days=900, assets=5, seed=4):
    """The feed as the vendor sends it: one CSV line for each day."""
    rng = np.random.default_rng(seed)
    r = np.zeros((days, assets))
    for t in range(2, days):
        r[t] = 0.6 * r[t - 1] - 0.3 * r[t - 2] + 0.01 * rng.standard_normal(assets)
    prices = 50.0 * np.exp(np.cumsum(r, axis=0))
    lines = []
    for t, row in enumerate(prices):
        cells = [f"{p:.4f}" for p in row]
        if t == 417:
            cells[2] = "0.0000"
        lines.append(",".join(cells))
    return "\n".join(lines)


def load_returns(text):
    prices = np.loadtxt(io.StringIO(text), delimiter=",")
    returns = np.log(prices[1:] / prices[:-1])
    return torch.tensor(returns * 50.0, dtype=torch.float32)


class Windows(torch.utils.data.Dataset):
    def __init__(self, series, width=16):
        self.series, self.width = series, width

    def __len__(self):
        return len(self.series) - self.width

    def __getitem__(self, i):
        return self.series[i : i + self.width].t(), self.series[i + self.width]


class TCN(nn.Module):
    def __init__(self, assets, ch=24):
        super().__init__()
        self.convs = nn.ModuleList(
            [nn.Conv1d(assets if i == 0 else ch, ch, 2, dilation=2 ** i) for i in range(3)]
        )
        self.out = nn.Linear(ch, assets)

    def forward(self, x):
        for i, conv in enumerate(self.convs):
            x = F.relu(conv(F.pad(x, (2 ** i, 0))))
        return self.out(x[:, :, -1])


if __name__ == "__main__":
    torch.manual_seed(0)
    series = load_returns(price_feed())
    split = 750
    train = torch.utils.data.DataLoader(Windows(series[:split]), batch_size=32, shuffle=True)
    test = torch.utils.data.DataLoader(Windows(series[split:]), batch_size=64)
    model = TCN(series.size(1))
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(4):
        model.train()
        seen = 0.0
        for x, y in train:
            loss = F.smooth_l1_loss(model(x), y)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            seen += loss.item() * len(x)
        model.eval()
        with torch.no_grad():
            err = sum(F.mse_loss(model(x), y, reduction="sum").item() for x, y in test) / len(test.dataset)
        print(f"epoch {epoch} train {seen / len(train.dataset):.4f} test mse {err:.4f}")
