import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def make_sensor_data(n, seed, targets=3):
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 10, generator=gen)
    w = torch.randn(10, targets, generator=torch.Generator().manual_seed(0))
    y = torch.exp(0.3 * x @ w) + 0.05 * torch.rand(n, targets, generator=gen)
    y[torch.rand(n, targets, generator=gen) < 0.3] = float("nan")
    x[torch.rand(n, 10, generator=gen) < 0.1] = float("nan")
    return TensorDataset(x, y)


class Imputer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.fill = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        missing = torch.isnan(x)
        return torch.cat([torch.where(missing, self.fill, x), missing.float()], dim=1)


class HeteroRegressor(nn.Module):
    def __init__(self, dim=10, targets=3, width=64):
        super().__init__()
        self.imputer = Imputer(dim)
        self.net = nn.Sequential(nn.Linear(2 * dim, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU())
        self.mean = nn.Linear(width, targets)
        self.logvar = nn.Linear(width, targets)

    def forward(self, x):
        h = self.net(self.imputer(x))
        return self.mean(h), self.logvar(h).clamp(-6, 4)


def masked_nll(mean, logvar, y):
    known = torch.isfinite(y)
    safe = torch.where(known, y, torch.ones_like(y))
    target = torch.log(safe.clamp(min=1e-3))
    nll = 0.5 * (logvar.float() + (target - mean.float()).square() * torch.exp(-logvar.float()))
    nll = torch.where(known, nll, torch.zeros_like(nll))
    return nll.sum() / known.sum().clamp(min=1)


def nan_rmse(pred, y):
    return torch.nanmean((pred.float() - y.log()).square()).sqrt()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=8)
    p.add_argument("--batch-size", type=int, default=64)
    p.add_argument("--lr", type=float, default=3e-3)
    args = p.parse_args()
    torch.manual_seed(9)
    train = DataLoader(make_sensor_data(1024, 1), args.batch_size, shuffle=True)
    valid = make_sensor_data(256, 2)
    model = HeteroRegressor()
    opt = torch.optim.RAdam(model.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 13, growth_interval=50)
    best = float("inf")
    for epoch in range(args.epochs):
        total = 0.0
        for x, y in train:
            with torch.autocast("cpu", dtype=torch.float16):
                mean, logvar = model(x)
            loss = masked_nll(mean, logvar, y)
            opt.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            total += loss.item()
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
            rmse = nan_rmse(model(valid.tensors[0])[0], valid.tensors[1]).item()
        best = min(best, rmse)
        print(f"epoch {epoch} nll {total / len(train):.4f} rmse {rmse:.4f} best {best:.4f}")


if __name__ == "__main__":
    main()
