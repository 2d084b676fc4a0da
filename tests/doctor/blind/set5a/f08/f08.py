"""Sequence-to-value forecasting with a GRU and a warm-up schedule."""
import argparse
import numpy as np
import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR


def load_curves(n, length, rng):
    t = np.arange(length + 1)
    phase = rng.uniform(0, 2 * np.pi, (n, 1))
    period = rng.uniform(8, 20, (n, 1))
    y = np.sin(2 * np.pi * t / period + phase) + 0.3 * np.sin(4 * np.pi * t / period)
    y += rng.normal(0, 0.05, y.shape)
    return torch.tensor(y, dtype=torch.float32)


class Forecaster(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.inp = nn.Linear(1, hidden)
        self.mix = nn.Sequential(nn.Linear(hidden * 2, hidden * 2), nn.ReLU(), nn.Linear(hidden * 2, hidden))
        self.out = nn.Linear(hidden, 1)
        self.hidden = hidden

    def forward(self, x):
        h = x.new_zeros(x.size(0), self.hidden)
        preds = []
        for t in range(x.size(1)):
            u = self.inp(x[:, t:t + 1])
            h = 0.7 * h + 0.3 * self.mix(torch.cat([u, h], dim=1))
            preds.append(self.out(h))
        return torch.cat(preds, dim=1)


def warmup(steps, total):
    def factor(step):
        if step < steps:
            return float(step + 1)
        return max(0.0, (total - step) / (total - steps))
    return factor


def main(argv=None):
    p = argparse.ArgumentParser()
    p.add_argument("--lr", type=float, default=0.03)
    p.add_argument("--steps", type=int, default=100)
    p.add_argument("--warmup", type=int, default=40)
    p.add_argument("--hidden", type=int, default=24)
    p.add_argument("--precision", default="bf16", choices=["bf16", "fp32"])
    a = p.parse_args(argv)

    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    curves = load_curves(256, 24, rng)
    model = Forecaster(a.hidden)
    opt = torch.optim.SGD(model.parameters(), lr=a.lr, momentum=0.9)
    sched = LambdaLR(opt, warmup(a.warmup, a.steps))

    for step in range(a.steps):
        idx = torch.randint(0, len(curves), (32,))
        seq = curves[idx]
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=a.precision == "bf16"):
            pred = model(seq[:, :-1])
        loss = nn.functional.mse_loss(pred.float(), seq[:, 1:])
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if step % 5 == 0:
            print(f"step {step:3d} mse {loss.item():.5g}")


if __name__ == "__main__":
    main()
