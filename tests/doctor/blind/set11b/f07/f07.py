"""Multi-step forecasting of noisy seasonal series with a temporal conv net."""
import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn


def series(n, length, g):
    t = torch.arange(length)
    period = torch.randint(8, 24, (n, 1), generator=g)
    phase = 6.28 * torch.rand(n, 1, generator=g)
    trend = 0.01 * torch.randn(n, 1, generator=g) * t
    return torch.sin(2 * math.pi * t / period + phase) + trend + 0.1 * torch.randn(n, length, generator=g)


class TCN(nn.Module):
    def __init__(self, channels=16, levels=3, horizon=8):
        super().__init__()
        self.inp = nn.Conv1d(1, channels, 1)
        self.levels = nn.ModuleList(nn.Conv1d(channels, channels, 3, dilation=2 ** i) for i in range(levels))
        self.out = nn.Linear(channels, horizon)

    def forward(self, x):
        h = self.inp(x[:, None])
        for i, conv in enumerate(self.levels):
            h = h + F.relu(conv(F.pad(h, (2 * 2 ** i, 0))))
        return self.out(h[..., -1])


def build_schedule(opt, warmup):
    return torch.optim.lr_scheduler.LambdaLR(opt, lambda it: (it + 1) / warmup)


def get_args():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=200)
    ap.add_argument("--warmup", type=int, default=5)
    ap.add_argument("--lr", type=float, default=0.1)
    ap.add_argument("--context", type=int, default=48)
    ap.add_argument("--horizon", type=int, default=8)
    ap.add_argument("--no-amp", action="store_true")
    return ap.parse_args()


def main():
    args = get_args()
    g = torch.Generator().manual_seed(11)
    torch.manual_seed(11)
    net = TCN(horizon=args.horizon)
    opt = torch.optim.SGD(net.parameters(), lr=args.lr, momentum=0.9)
    sched = build_schedule(opt, args.warmup)
    use_amp = not args.no_amp
    scaler = torch.amp.GradScaler("cpu", enabled=use_amp)

    for it in range(args.steps):
        full = series(32, args.context + args.horizon, g)
        x, y = full[:, : args.context], full[:, args.context:]
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16, enabled=use_amp):
            pred = net(x)
        loss = F.mse_loss(pred.float(), y)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        sched.step()
        if it % 20 == 0 or it == args.steps - 1:
            print(f"it {it:4d} mse {loss.item():.4g} scale {scaler.get_scale():g}")


if __name__ == "__main__":
    main()
