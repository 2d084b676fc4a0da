"""Denoising autoencoder on sine mixtures."""
import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Denoiser(nn.Module):
    def __init__(self, n=64, h=96, z=12):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(n, h), nn.SiLU(), nn.Linear(h, z))
        self.dec = nn.Sequential(nn.Linear(z, h), nn.SiLU(), nn.Linear(h, n))

    def forward(self, x):
        return self.dec(self.enc(x))


def signals(bs, n, g):
    t = torch.linspace(0, 2 * math.pi, n)
    amp = torch.rand(bs, 3, 1, generator=g)
    freq = torch.randint(1, 5, (bs, 3, 1), generator=g)
    phase = torch.rand(bs, 3, 1, generator=g) * 2 * math.pi
    return (amp * torch.sin(freq * t + phase)).sum(1)


class Ema:
    def __init__(self, model, decay=0.95):
        self.decay = decay
        self.shadow = {k: v.detach().clone() for k, v in model.state_dict().items()}

    @torch.no_grad()
    def update(self, model):
        for k, v in model.state_dict().items():
            self.shadow[k].lerp_(v, 1 - self.decay)


def fit(model, args):
    gen = torch.Generator().manual_seed(args.seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu")
    ema = Ema(model)
    history = []
    with torch.autocast(device_type="cpu", dtype=torch.float16):
        for it in range(1, args.iters + 1):
            clean = signals(args.batch, 64, gen)
            noisy = clean + 0.1 * torch.randn(clean.shape, generator=gen)
            loss = F.mse_loss(model(noisy), clean)
            optimizer.zero_grad(set_to_none=True)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            ema.update(model)
            history.append(loss.item())
            if it % 25 == 0:
                print(f"iter {it:4d} loss {sum(history[-25:]) / 25:.4f} scale {scaler.get_scale():.0f}")
    return ema


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--iters", type=int, default=200)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--seed", type=int, default=0)
    args = p.parse_args()
    torch.manual_seed(args.seed)
    model = Denoiser()
    ema = fit(model, args)
    model.load_state_dict(ema.shadow)
    model.eval()
    g = torch.Generator().manual_seed(77)
    x = signals(256, 64, g)
    with torch.no_grad():
        err = F.mse_loss(model(x), x).item()
    print(f"test mse {err:.4f} (signal power {x.pow(2).mean().item():.4f})")


if __name__ == "__main__":
    main()
