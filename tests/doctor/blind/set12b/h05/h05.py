"""Noise-prediction diffusion on 2-d points with accumulation and a running average."""
import argparse
import copy
import math

import torch
import torch.nn as nn


class Eps(nn.Module):
    def __init__(self, width=64, freqs=6):
        super().__init__()
        self.register_buffer("w", 2.0 ** torch.arange(freqs) * math.pi / 64)
        self.net = nn.Sequential(
            nn.Linear(2 + 2 * freqs, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 2)
        )

    def forward(self, x, t):
        a = t[:, None] * self.w
        return self.net(torch.cat([x, a.sin(), a.cos()], 1))


def alpha_bar(steps):
    f = torch.cos((torch.linspace(0, 1, steps + 1) + 0.008) / 1.008 * math.pi / 2) ** 2
    return (f / f[0])[1:]


def points(n):
    k = torch.randint(0, 4, (n,)) * math.pi / 2
    return torch.stack([k.cos(), k.sin()], 1) * 1.5 + 0.1 * torch.randn(n, 2)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=120)
    ap.add_argument("--micro", type=int, default=2)
    ap.add_argument("--timesteps", type=int, default=50)
    args = ap.parse_args()
    torch.manual_seed(4)
    ab = alpha_bar(args.timesteps)
    snr = ab / (1 - ab)
    net = Eps()
    ema = copy.deepcopy(net).requires_grad_(False)
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler("cpu")
    history = []
    print(f"snr from {snr[0]:.3g} to {snr[-1]:.3g}")
    for step in range(args.steps):
        opt.zero_grad(set_to_none=True)
        seen = 0.0
        for _ in range(args.micro):
            x0 = points(64)
            t = torch.randint(0, args.timesteps, (64,))
            noise = torch.randn_like(x0)
            xt = ab[t, None].sqrt() * x0 + (1 - ab[t, None]).sqrt() * noise
            with torch.autocast("cpu", dtype=torch.float16):
                pred = net(xt, t.float())
            per = (pred.float() - noise).square().mean(1)
            loss = (per * snr[t].clamp(max=5.0) / snr[t].clamp(min=1.0)).mean()
            scaler.scale(loss / args.micro).backward()
            seen += loss.item() / args.micro
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
        with torch.no_grad():
            for e, p in zip(ema.parameters(), net.parameters()):
                e.lerp_(p, 0.05)
        history.append(seen)
    print("first 20", round(sum(history[:20]) / 20, 4), "last 20", round(sum(history[-20:]) / 20, 4))


if __name__ == "__main__":
    main()
