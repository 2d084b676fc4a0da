import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Spikes(Dataset):
    """Regression with heavy-tailed targets; a few rows are a thousand times larger."""

    def __init__(self, n=2000, dim=16, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.x = torch.randn(n, dim, generator=g)
        w = torch.randn(dim, generator=g)
        y = (self.x @ w).tanh() * 3 + 0.1 * torch.randn(n, generator=g)
        big = torch.rand(n, generator=g) < 0.004
        self.y = torch.where(big, y * 1000, y)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class QuantileNet(nn.Module):
    def __init__(self, dim=16, hidden=64, quantiles=(0.1, 0.5, 0.9)):
        super().__init__()
        self.register_buffer("q", torch.tensor(quantiles))
        self.net = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.out = nn.Linear(hidden, len(quantiles))

    def forward(self, x):
        return self.out(self.net(x))

    def loss(self, pred, y):
        e = y[:, None] - pred
        pinball = torch.maximum(self.q * e, (self.q - 1) * e).mean()
        return pinball + 1e-3 * e.pow(2).mean()


class Trainer:
    def __init__(self, args):
        self.model = QuantileNet()
        self.opt = torch.optim.Adam(self.model.parameters(), lr=args.lr)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 10, growth_interval=20)
        self.skipped = 0

    def step(self, x, y):
        with torch.autocast("cpu", dtype=torch.float16):
            pred = self.model(x)
        loss = self.model.loss(pred.float(), y)
        self.opt.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.opt)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.scaler.step(self.opt)
        self.scaler.update()
        if not torch.isfinite(norm):
            self.skipped += 1
        return pred

    def fit(self, loader, epochs):
        for epoch in range(epochs):
            err = []
            for x, y in loader:
                pred = self.step(x, y)
                keep = y.abs() < 10
                err.append((pred[keep, 1].float() - y[keep]).abs().mean().item())
            print(f"epoch {epoch} median error {sum(err) / len(err):.3f} scale {self.scaler.get_scale():g} skipped {self.skipped}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=40)
    parser.add_argument("--lr", type=float, default=2e-3)
    args = parser.parse_args()
    torch.manual_seed(0)
    Trainer(args).fit(DataLoader(Spikes(), args.batch_size, shuffle=True), args.epochs)
