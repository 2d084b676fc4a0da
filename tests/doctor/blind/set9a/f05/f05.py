"""Cumulative demand forecasting with a GRU. Usage: python f05.py --horizon 210"""
import argparse
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class DemandSeries(Dataset):
    def __init__(self, n, history, horizon, seed):
        g = torch.Generator().manual_seed(seed)
        t = torch.arange(history + horizon).float()
        level = 80 + 320 * torch.rand(n, 1, generator=g)
        phase = 2 * math.pi * torch.rand(n, 1, generator=g)
        season = 1 + 0.3 * torch.sin(2 * math.pi * t / 7 + phase)
        noise = 1 + 0.05 * torch.randn(n, history + horizon, generator=g)
        y = level * season * noise
        self.past, self.future = y[:, :history], y[:, history:]

    def __len__(self):
        return len(self.past)

    def __getitem__(self, i):
        return self.past[i], self.future[i]


class Forecaster(nn.Module):
    def __init__(self, hidden, horizon):
        super().__init__()
        self.gru = nn.GRU(1, hidden, batch_first=True)
        self.norm = nn.LayerNorm(hidden)
        self.head = nn.Linear(hidden, horizon)

    def forward(self, past):
        base = past.mean(1, keepdim=True)
        _, h = self.gru((past / base - 1).unsqueeze(-1))
        rate = nn.functional.softplus(self.head(self.norm(h[-1])) + 0.5)
        daily = rate * base.to(rate.dtype)
        total = daily.cumsum(1)
        return daily, total


class RelativeError(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = weight

    def forward(self, daily, total, future):
        goal = future.cumsum(1)
        local = ((daily.float() - future).abs() / future.mean(1, keepdim=True)).mean()
        whole = ((total.float() - goal).abs() / goal).mean()
        return local + self.weight * whole, whole


def evaluate(model, criterion, loader):
    model.eval()
    err = 0.0
    with torch.no_grad():
        for past, future in loader:
            daily, total = model(past)
            err += criterion(daily, total, future)[1].item() * len(past)
    return err / len(loader.dataset)


def main(args):
    torch.manual_seed(args.seed)
    train = DataLoader(DemandSeries(256, 28, args.horizon, 1), args.batch, shuffle=True)
    valid = DataLoader(DemandSeries(64, 28, args.horizon, 2), args.batch)
    model = Forecaster(args.hidden, args.horizon)
    criterion = RelativeError(args.weight)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    scaler = torch.amp.GradScaler("cpu")
    for epoch in range(args.epochs):
        model.train()
        seen, mean = 0, 0.0
        for past, future in train:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                daily, total = model(past)
                loss, _ = criterion(daily, total, future)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            seen += 1
            mean += (loss.item() - mean) / seen
        schedule.step()
        print(f"epoch {epoch + 1}: train {mean:.4f}  valid MAPE {evaluate(model, criterion, valid):.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--horizon", type=int, default=210)
    parser.add_argument("--hidden", type=int, default=32)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--weight", type=float, default=0.5)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    main(parser.parse_args())
