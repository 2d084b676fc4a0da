"""Probabilistic traffic forecasting in vehicles per hour (targets are left in their unit)."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn


def counts(n, length, g):
    t = torch.arange(length)
    level = 600 * torch.exp(0.3 * torch.randn(n, 1, generator=g))
    week = 1 + 0.3 * torch.sin(2 * torch.pi * (t + torch.randint(7, (n, 1), generator=g)) / 7)
    return level * week * (1 + 0.03 * torch.randn(n, length, generator=g))


class Forecaster(nn.Module):
    def __init__(self, context, horizon, hidden=64):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(context, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, horizon)
        )

    def forward(self, x):
        level = x.mean(-1, keepdim=True)
        return self.net(x / level - 1), level


class EMA:
    def __init__(self, module, decay):
        self.decay = decay
        self.shadow = {k: v.clone() for k, v in module.state_dict().items()}

    def update(self, module):
        for k, v in module.state_dict().items():
            self.shadow[k].mul_(self.decay).add_(v, alpha=1 - self.decay)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=400)
    ap.add_argument("--context", type=int, default=28)
    ap.add_argument("--horizon", type=int, default=7)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--growth-interval", type=int, default=25)
    args = ap.parse_args()
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(0)
    model = Forecaster(args.context, args.horizon)
    ema = EMA(model, 0.98)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu", growth_interval=args.growth_interval)
    seen, low, high, drops = [], float("inf"), 0.0, 0

    for step in range(args.steps):
        full = counts(64, args.context + args.horizon, g)
        x, y = full[:, : args.context], full[:, args.context :]
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            ratio, level = model(x)
        pred = (1 + ratio.float()) * level
        loss = F.mse_loss(pred, y)
        scaler.scale(loss).backward()
        scaler.step(opt)
        before = scaler.get_scale()
        scaler.update()
        after = scaler.get_scale()
        drops += after < before
        if after >= before:
            ema.update(model)
        low, high = min(low, after), max(high, after)
        seen.append(loss.item())
        if step % 50 == 49:
            print(f"step {step + 1} mse {sum(seen) / len(seen):.4g} rmse {loss.item() ** 0.5:.1f} "
                  f"scale {after:g} in [{low:g}, {high:g}] drops {drops}")
            seen, low, high, drops = [], float("inf"), 0.0, 0

    model.load_state_dict(ema.shadow)
    with torch.no_grad():
        full = counts(256, args.context + args.horizon, g)
        ratio, level = model(full[:, : args.context])
        mape = ((1 + ratio) * level / full[:, args.context :] - 1).abs().mean()
    print(f"EMA test MAPE {mape.item():.4f}")


if __name__ == "__main__":
    main()
