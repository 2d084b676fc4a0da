"""One-step forecaster for a seasonal series; memory-saving activation."""
import math

import torch
import torch.nn as nn


class MishFn(torch.autograd.Function):
    """x * tanh(softplus(x)), keeps only the input for the backward pass."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        sp = torch.log(1 + torch.exp(x))
        return x * torch.tanh(sp)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        e = torch.exp(x)
        t = torch.tanh(torch.log(1 + e))
        return grad * (t + x * (1 - t * t) * (e / (1 + e)))


class Mish(nn.Module):
    def forward(self, x):
        return MishFn.apply(x)


class Forecaster(nn.Module):
    def __init__(self, lags, width):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(lags, width), Mish(), nn.Linear(width, width), Mish()
        )
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        return self.head(self.body(x)).squeeze(-1)


def make_windows(n=600, lags=24):
    t = torch.arange(n + lags, dtype=torch.float32)
    load = 12 + 5 * torch.sin(2 * math.pi * t / 24) + 3 * torch.sin(2 * math.pi * t / 168)
    load = load + 0.3 * torch.randn(n + lags)
    win = load.unfold(0, lags + 1, 1)
    return win[:, :-1].contiguous(), win[:, -1].contiguous()


def run(epochs=3, batch=64):
    torch.manual_seed(3)
    x, y = make_windows()
    model = Forecaster(24, 48)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    for ep in range(epochs):
        perm = torch.randperm(len(x))
        for idx in perm.split(batch):
            opt.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                pred = model(x[idx])
            loss = nn.functional.smooth_l1_loss(pred.float(), y[idx])
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            scaler.step(opt)
            scaler.update()
        gn = max(float(p.grad.abs().max()) for p in model.parameters())
        print(f"ep {ep} loss {loss.item():.4f} scale {scaler.get_scale():g} grad {gn:.3g}")


run()
