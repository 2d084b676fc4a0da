"""One-step-ahead volatility forecast of daily prices with a GRU."""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

DAYS, SERIES, WINDOW = 120, 24, 20


def quotes(seed):
    g = torch.Generator().manual_seed(seed)
    vol = 0.01 + 0.02 * torch.rand(SERIES, 1, generator=g)
    steps = vol * torch.randn(SERIES, DAYS, generator=g)
    price = 100 * torch.exp(steps.cumsum(1))
    price[17, 75] = 0.0
    return price


def windows(price):
    ret = torch.log(price[:, 1:] / price[:, :-1]) * 100
    xs, ys = [], []
    for s in range(0, ret.size(1) - WINDOW - 5, 5):
        xs.append(ret[:, s:s + WINDOW])
        ys.append(ret[:, s + WINDOW:s + WINDOW + 5].abs().mean(1))
    return torch.cat(xs).unsqueeze(-1), torch.cat(ys)


class Forecaster(nn.Module):
    def __init__(self, hidden=24, layers=2):
        super().__init__()
        self.gru = nn.GRU(1, hidden, layers, batch_first=True)
        self.head = nn.Sequential(nn.Linear(hidden, 16), nn.ReLU(), nn.Linear(16, 1), nn.Softplus())

    def forward(self, x):
        out, _ = self.gru(x)
        return self.head(out[:, -1]).squeeze(-1)


class EarlyStop:
    def __init__(self, patience):
        self.best, self.left, self.patience = float("inf"), patience, patience

    def __call__(self, value):
        if value < self.best:
            self.best, self.left = value, self.patience
        else:
            self.left -= 1
        return self.left < 0


def main():
    torch.manual_seed(2)
    x, y = windows(quotes(0))
    order = torch.randperm(len(x))
    x, y = x[order], y[order]
    n = int(0.8 * len(x))
    train = DataLoader(TensorDataset(x[:n], y[:n]), batch_size=32, shuffle=True)
    valid = DataLoader(TensorDataset(x[n:], y[n:]), batch_size=64)
    net = Forecaster()
    opt = torch.optim.RMSprop(net.parameters(), lr=2e-3)
    stop = EarlyStop(5)
    for epoch in range(8):
        net.train()
        losses = []
        for xb, yb in train:
            opt.zero_grad()
            loss = nn.functional.l1_loss(net(xb), yb)
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            opt.step()
            losses.append(loss.item())
        net.eval()
        with torch.no_grad():
            val = sum(nn.functional.l1_loss(net(a), b).item() for a, b in valid) / len(valid)
        print(f"epoch {epoch} first {losses[0]:.4f} last {losses[-1]:.4f} valid {val:.4f}")
        if stop(val):
            break


if __name__ == "__main__":
    main()
