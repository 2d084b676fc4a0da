"""Multivariate return forecasting with an small mixer (float16)."""
import argparse
import os

import torch
import torch.nn.functional as F
from torch import nn


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--assets", type=int, default=24)
    p.add_argument("--window", type=int, default=40)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--epochs", type=int, default=6)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--device", default="cpu")
    p.add_argument("--out", default="runs")
    return p.parse_args()


def returns(n_assets, n=1600, seed=12):
    """Daily returns driven by a few persistent factors."""
    g = torch.Generator().manual_seed(seed)
    f = torch.zeros(n, 3)
    for t in range(1, n):
        f[t] = 0.95 * f[t - 1] + 0.31 * torch.randn(3, generator=g)
    load = torch.randn(3, n_assets, generator=g)
    r = f @ load + 0.3 * torch.randn(n, n_assets, generator=g)
    return r * 3e-3


class MixerBlock(nn.Module):
    def __init__(self, window, width):
        super().__init__()
        self.time = nn.Linear(window, window)
        self.chan = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))

    def forward(self, x):
        x = x + self.time(x.transpose(1, 2)).transpose(1, 2)
        return x + self.chan(x)


class ReturnNet(nn.Module):
    def __init__(self, assets, window, unit, width=32):
        super().__init__()
        self.inp = nn.Linear(assets, width)
        self.blocks = nn.Sequential(MixerBlock(window, width), MixerBlock(window, width))
        self.out = nn.Linear(width, assets)
        self.register_buffer("unit", unit)

    def forward(self, x):
        h = self.blocks(self.inp(x / self.unit))
        return self.out(h).float() * self.unit


def explained(pred, y):
    return 1.0 - ((pred - y).pow(2).mean() / y.pow(2).mean()).item()


class Runner:
    def __init__(self, args):
        self.args = args
        series = returns(args.assets)
        self.net = ReturnNet(args.assets, args.window, series.std()).to(args.device)
        self.opt = torch.optim.Adam(self.net.parameters(), lr=args.lr, eps=1e-12)
        self.scaler = torch.amp.GradScaler(args.device, enabled=args.device.startswith("cuda"))
        x = series[:-1].unfold(0, args.window, 1).transpose(1, 2)
        y = series[1:].unfold(0, args.window, 1).transpose(1, 2)
        cut = int(0.8 * len(x))
        self.train_set = (x[:cut].contiguous(), y[:cut].contiguous())
        self.val_set = (x[cut:].contiguous(), y[cut:].contiguous())

    def autocast(self):
        return torch.autocast(self.args.device, dtype=torch.float16)

    def epoch(self):
        x, y = self.train_set
        self.net.train()
        total, n = 0.0, 0
        for idx in torch.randperm(len(x)).split(self.args.batch):
            self.opt.zero_grad()
            with self.autocast():
                pred = self.net(x[idx])
                loss = F.mse_loss(pred, y[idx])
            self.scaler.scale(loss).backward()
            self.scaler.step(self.opt)
            self.scaler.update()
            total, n = total + loss.item(), n + 1
        return total / n

    @torch.no_grad()
    def validate(self):
        self.net.eval()
        x, y = self.val_set
        with self.autocast():
            pred = self.net(x)
        return explained(pred.float(), y)


def main():
    args = parse()
    torch.manual_seed(0)
    runner = Runner(args)
    os.makedirs(args.out, exist_ok=True)
    for epoch in range(args.epochs):
        loss = runner.epoch()
        print(f"epoch {epoch} train mse {loss:.4e} explained {runner.validate():.4f}")
    torch.save(runner.net.state_dict(), os.path.join(args.out, "returns.pt"))


if __name__ == "__main__":
    main()
