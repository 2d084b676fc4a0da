"""Noise-prediction diffusion on 2-D points: accumulation, clipping, EMA, fp16."""
import argparse
import math
import torch
import torch.nn as nn
import torch.nn.functional as F

from ema import EMA


class Eps(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.register_buffer("freqs", torch.exp(torch.linspace(0, math.log(100), 8)))
        self.inp = nn.Linear(2 + 16, width)
        self.mid = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.out = nn.Linear(width, 2)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, x, t):
        ph = t[:, None] * self.freqs
        h = F.silu(self.inp(torch.cat([x, ph.sin(), ph.cos()], 1)))
        for layer in self.mid:
            h = h + F.silu(layer(h))
        return self.out(h)


def moons(n):
    a = torch.rand(n) * math.pi
    s = torch.randint(0, 2, (n,)).float() * 2 - 1
    return torch.stack([a.cos() * s + 0.5 * (1 - s) - 0.5, a.sin() * s], 1) + 0.05 * torch.randn(n, 2)


def diffusion_loss(model, x0):
    t = torch.rand(len(x0))
    alpha = torch.cos(t * math.pi / 2)[:, None]
    noise = torch.randn_like(x0)
    xt = alpha * x0 + (1 - alpha ** 2).sqrt() * noise
    return F.mse_loss(model(xt, t).float(), noise)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--updates", type=int, default=110)
    p.add_argument("--accum", type=int, default=2)
    args = p.parse_args()
    torch.manual_seed(6)
    model = Eps()
    ema = EMA(model)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.updates)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 24, growth_interval=200)
    done = 0
    while done < args.updates:
        opt.zero_grad(set_to_none=True)
        total = 0.0
        for _ in range(args.accum):
            with torch.autocast("cpu", dtype=torch.float16):
                loss = diffusion_loss(model, moons(128)) / args.accum
            scaler.scale(loss).backward()
            total += loss.item()
        scaler.unscale_(opt)
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        old = scaler.get_scale()
        scaler.step(opt)
        scaler.update()
        if scaler.get_scale() < old:
            continue
        sched.step()
        ema.update(model)
        done += 1
        if done % 10 == 0:
            print(f"update {done} loss {total:.4f} grad {norm:.3f} scale {scaler.get_scale():g}")
    with torch.no_grad():
        print("ema loss", diffusion_loss(ema.shadow, moons(2048)).item())


if __name__ == "__main__":
    main()
