"""Denoising diffusion on two moons."""
import argparse

import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint

from ops import ScaledSwish


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.fc = nn.Linear(dim, dim)
        self.beta = nn.Parameter(torch.ones(()))

    def forward(self, x):
        return x + ScaledSwish.apply(self.fc(x), self.beta)


class Denoiser(nn.Module):
    def __init__(self, steps, dim=64, depth=3):
        super().__init__()
        self.inp = nn.Linear(2, dim)
        self.time = nn.Embedding(steps, dim)
        self.layers = nn.ModuleList(Layer(dim) for _ in range(depth))
        self.out = nn.Linear(dim, 2)

    def forward(self, x, t):
        h = self.inp(x) + self.time(t)
        for layer in self.layers:
            h = checkpoint(layer, h, use_reentrant=False)
        return self.out(h)


def moons(n, gen):
    a = 3.1416 * torch.rand(n, generator=gen)
    up = torch.stack([a.cos(), a.sin()], 1)
    lo = torch.stack([1 - a.cos(), 0.5 - a.sin()], 1)
    pick = (torch.rand(n, 1, generator=gen) < 0.5).float()
    return pick * up + (1 - pick) * lo + 0.05 * torch.randn(n, 2, generator=gen)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--iters", type=int, default=150)
    ap.add_argument("--T", type=int, default=40)
    args = ap.parse_args()
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(0)
    betas = torch.linspace(1e-4, 0.15, args.T)
    abar = torch.cumprod(1 - betas, 0)
    net = Denoiser(args.T)
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 21)
    ema = torch.optim.swa_utils.AveragedModel(net, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.98))
    log = torch.empty(args.iters)
    for it in range(args.iters):
        x0 = moons(64, gen)
        t = torch.randint(0, args.T, (64,), generator=gen)
        eps = torch.randn(64, 2, generator=gen)
        xt = abar[t, None].sqrt() * x0 + (1 - abar[t, None]).sqrt() * eps
        with torch.autocast("cpu", dtype=torch.float16):
            loss = (net(xt, t).float() - eps).pow(2).mean()
        opt.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        norm = torch.linalg.vector_norm(torch.stack([p.grad.norm() for p in net.parameters() if p.grad is not None]))
        scaler.step(opt)
        scaler.update()
        ema.update_parameters(net)
        log[it] = loss.detach()
        if it < 10 or it % 15 == 0:
            print(f"{it:4d} loss {loss.item():.4f} grad norm {norm.item():.4f} scale {scaler.get_scale():g}")
    print(f"mean loss of the first 30: {log[:30].mean():.4f}, of the last 30: {log[-30:].mean():.4f}")
    with torch.no_grad():
        x = torch.randn(256, 2, generator=gen)
        for k in reversed(range(args.T)):
            e = ema(x, torch.full((256,), k))
            x = (x - betas[k] / (1 - abar[k]).sqrt() * e) / (1 - betas[k]).sqrt()
            if k:
                x = x + betas[k].sqrt() * torch.randn(256, 2, generator=gen)
    print(f"samples: mean {x.mean(0).tolist()} std {x.std(0).tolist()}")


if __name__ == "__main__":
    main()
