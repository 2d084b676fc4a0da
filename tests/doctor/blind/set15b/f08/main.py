"""Pretrain a load forecaster on one region, then fit a new head for another one."""
import torch
from torch import nn

import ckpt
from model import Forecaster

FEATURES = ["unix_time", "temp_c", "wind_ms", "lag_1h", "lag_24h"]


def region(n, seed, n_out):
    g = torch.Generator().manual_seed(seed)
    t = 1.6e9 + 3600.0 * torch.randint(0, 9000, (n,), generator=g)
    temp = 12 + 9 * torch.randn(n, generator=g)
    wind = 6 * torch.rand(n, generator=g)
    lag1 = 100 + 20 * torch.randn(n, generator=g)
    lag24 = 0.8 * lag1 + 20 + 8 * torch.randn(n, generator=g)
    x = torch.stack([t, temp, wind, lag1, lag24], 1)
    base = 0.5 * (lag1 - 100) / 20 + 0.5 * (lag24 - 100) / 18 - 0.3 * (temp - 12) / 9
    mix = torch.rand(n_out, generator=g) + 0.5
    y = base[:, None] * mix + 0.1 * torch.randn(n, n_out, generator=g)
    return x, y


def fit(model, params, x, y, steps, lr, tag, frozen=False):
    opt = torch.optim.Adam(params, lr=lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=2048.0)
    for step in range(steps):
        model.train()
        if frozen:
            model.trunk.eval()
        idx = torch.randint(0, len(x), (128,))
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.smooth_l1_loss(model(x[idx]), y[idx])
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        if step % 30 == 0:
            print(f"[{tag}] step {step:3d} loss {loss.item():.4f} scale {scaler.get_scale():g}")


def main():
    torch.manual_seed(4)
    torch.set_num_threads(1)
    xa, ya = region(4000, 1, 3)
    source = Forecaster(len(FEATURES), 3)
    fit(source, source.parameters(), xa, ya, 150, 2e-3, "pretrain")
    blob = ckpt.pack(source)

    xb, yb = region(1500, 2, 3)
    target = ckpt.unpack(blob, Forecaster(len(FEATURES), 3))
    target.head = nn.Linear(64, 3)
    for p in target.trunk.parameters():
        p.requires_grad_(False)
    fit(target, target.head.parameters(), xb, yb, 150, 5e-3, "finetune", frozen=True)


if __name__ == "__main__":
    main()
