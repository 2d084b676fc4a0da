"""Energy demand forecasting with a small TCN."""
import math
import sys
from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Options:
    window: int = 48
    horizon: int = 12
    channels: int = 32
    levels: int = 3
    batch: int = 64
    epochs: int = 4
    lr: float = 0.8
    momentum: float = 0.9
    amp_dtype: str = "bfloat16"
    seed: int = 6


def demand(n=2600, seed=6):
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(n, dtype=torch.float32)
    day = torch.sin(2 * math.pi * t / 24)
    week = torch.sin(2 * math.pi * t / 168 + 0.7)
    noise = 0.15 * torch.randn(n, generator=g)
    return day + 0.6 * week + noise


def windows(series, opt):
    full = series.unfold(0, opt.window + opt.horizon, 1)
    return full[:, :opt.window].clone(), full[:, opt.window:].clone()


class Block(nn.Module):
    def __init__(self, ch, dilation):
        super().__init__()
        self.pad = 2 * dilation
        self.conv = nn.Conv1d(ch, ch, 3, dilation=dilation)
        self.point = nn.Conv1d(ch, ch, 1)

    def forward(self, x):
        h = F.relu(self.conv(F.pad(x, (self.pad, 0))))
        return x + self.point(h)


class Forecaster(nn.Module):
    def __init__(self, opt):
        super().__init__()
        self.inp = nn.Conv1d(1, opt.channels, 1)
        self.tower = nn.Sequential(*[Block(opt.channels, 2 ** i) for i in range(opt.levels)])
        self.head = nn.Linear(opt.channels, opt.horizon)

    def forward(self, x):
        h = self.tower(self.inp(x.unsqueeze(1)))
        return self.head(h[..., -1])


def evaluate(net, x, y, dtype):
    net.eval()
    with torch.inference_mode(), torch.autocast("cpu", dtype=dtype):
        pred = net(x)
    return (pred.float() - y).abs().mean().item()


def train(opt):
    torch.manual_seed(opt.seed)
    dtype = getattr(torch, opt.amp_dtype)
    x, y = windows(demand(), opt)
    cut = int(len(x) * 0.8)
    net = Forecaster(opt)
    sgd = torch.optim.SGD(net.parameters(), lr=opt.lr, momentum=opt.momentum)
    for epoch in range(opt.epochs):
        net.train()
        running = 0.0
        parts = torch.randperm(cut).split(opt.batch)
        for i, idx in enumerate(parts):
            sgd.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=dtype):
                pred = net(x[idx])
                loss = F.mse_loss(pred, y[idx])
            loss.backward()
            sgd.step()
            running += loss.item()
            if i % 10 == 0:
                print(f"epoch {epoch} it {i:3d} mse {loss.item():.5g}")
        print(f"epoch {epoch} mean {running / len(parts):.5g} "
              f"val mae {evaluate(net, x[cut:], y[cut:], dtype):.5g}")
    return net


if __name__ == "__main__":
    options = Options()
    print(asdict(options), file=sys.stderr)
    train(options)
