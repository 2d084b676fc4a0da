"""Hourly station data -> next-hour temperature. MLP with pre-norm residual blocks."""
import argparse
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        ms = x.pow(2).mean(dim=-1, keepdim=True)
        return x * torch.rsqrt(ms + self.eps) * self.weight


class Block(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.norm = RMSNorm(dim)
        self.up = nn.Linear(dim, hidden)
        self.gate = nn.Linear(dim, hidden)
        self.down = nn.Linear(hidden, dim)

    def forward(self, x):
        h = self.norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class StationNet(nn.Module):
    def __init__(self, n_in, dim=64, depth=3):
        super().__init__()
        self.inp = nn.Linear(n_in, dim)
        self.blocks = nn.ModuleList(Block(dim, 2 * dim) for _ in range(depth))
        self.norm = RMSNorm(dim)
        self.out = nn.Linear(dim, 1)

    def forward(self, x):
        h = self.inp(x)
        for blk in self.blocks:
            h = blk(h)
        return self.out(self.norm(h)).squeeze(-1)


def make_stations(n, seed):
    g = torch.Generator().manual_seed(seed)
    temp = torch.randn(n, generator=g) * 8 + 12
    humidity = torch.rand(n, generator=g) * 60 + 35
    pressure = torch.randn(n, generator=g) * 6 + 1013
    altitude = torch.rand(n, generator=g) * 900
    wind = torch.rand(n, generator=g) * 20
    hour = torch.randint(0, 24, (n,), generator=g).float()
    x = torch.stack([temp, humidity, pressure, altitude, wind, hour], 1)
    y = 0.3 * temp - 0.01 * altitude + 0.05 * (pressure - 1013) + torch.sin(hour / 24 * 6.283)
    return x, (y - y.mean()) / y.std()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--lr", type=float, default=4e-3)
    p.add_argument("--batch-size", type=int, default=128)
    p.add_argument("--fp32", action="store_true")
    args = p.parse_args()
    torch.manual_seed(0)

    loader = DataLoader(TensorDataset(*make_stations(1536, 1)), args.batch_size, shuffle=True)
    model = StationNet(6)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu", enabled=not args.fp32)
    for epoch in range(args.epochs):
        total, count = 0.0, 0
        for x, y in loader:
            opt.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.float16, enabled=not args.fp32):
                pred = model(x)
                loss = F.smooth_l1_loss(pred.float(), y)
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(opt)
            scaler.update()
            total += loss.item() * len(x)
            count += len(x)
        print(f"epoch {epoch} loss {total / count:.4f} scale {scaler.get_scale():g}")


if __name__ == "__main__":
    main()
