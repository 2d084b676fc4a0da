import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class Stations(Dataset):
    """Hourly readings with gaps; gaps are NaN both in the inputs and in the targets."""

    def __init__(self, n=600, t=24, n_sensors=6, missing=0.2, seed=0):
        g = torch.Generator().manual_seed(seed)
        base = torch.randn(n, 1, n_sensors, generator=g)
        slope = 0.05 * torch.randn(n, 1, n_sensors, generator=g)
        steps = torch.arange(t + 1).view(1, -1, 1)
        s = base + slope * steps + 0.1 * torch.randn(n, t + 1, n_sensors, generator=g)
        s[torch.rand(s.shape, generator=g) < missing] = float("nan")
        s[: n // 20, :, 0] = float("nan")
        self.x, self.y = s[:, :-1], s[:, -1]

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class Imputer(nn.Module):
    def __init__(self, n_sensors, hidden=48):
        super().__init__()
        self.gru = nn.GRU(2 * n_sensors, hidden, batch_first=True)
        self.out = nn.Linear(hidden, n_sensors)

    def forward(self, x):
        seen = ~torch.isnan(x)
        x = torch.cat([torch.nan_to_num(x, nan=0.0), seen.float()], dim=-1)
        h, _ = self.gru(x)
        return self.out(h[:, -1])


def masked_mse(pred, target):
    seen = ~torch.isnan(target)
    err = torch.where(seen, pred - torch.where(seen, target, torch.zeros_like(target)), torch.zeros_like(pred))
    return err.pow(2).sum() / seen.sum().clamp(min=1)


def column_rmse(model, loader):
    se, cnt = 0.0, 0.0
    model.eval()
    with torch.no_grad():
        for x, y in loader:
            d = (model(x) - y) ** 2
            se += torch.nansum(d, 0)
            cnt += (~torch.isnan(d)).sum(0)
    return (se / cnt).sqrt()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=6)
    ap.add_argument("--batch-size", type=int, default=30)
    ap.add_argument("--lr", type=float, default=5e-3)
    args = ap.parse_args()
    torch.manual_seed(0)
    train = DataLoader(Stations(seed=0), args.batch_size, shuffle=True)
    val = DataLoader(Stations(120, seed=1), 60)
    model = Imputer(6)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu")
    for epoch in range(args.epochs):
        model.train()
        total, best = 0.0, float("inf")
        for x, y in train:
            opt.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                pred = model(x)
            loss = masked_mse(pred.float(), y)
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            total += loss.item()
            best = min(best, loss.item())
        rmse = ", ".join(f"{v:.2f}" for v in column_rmse(model, val))
        print(f"epoch {epoch} loss {total / len(train):.4f} best {best:.4f} rmse [{rmse}]")


if __name__ == "__main__":
    main()
