import math
import os
import tempfile

import torch
import torch.nn as nn

from loop import Checkpoint, EarlyStop, Ema, Loop, SkipSpikes

DIM, STEPS = 16, 40
BETA = torch.linspace(1e-3, 0.2, STEPS)
KEEP = torch.cumprod(1 - BETA, 0)


class Denoiser(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.time = nn.Embedding(STEPS, hidden)
        self.inp, self.mid, self.out = nn.Linear(DIM, hidden), nn.Linear(hidden, hidden), nn.Linear(hidden, DIM)

    def forward(self, x, t):
        h = nn.functional.silu(self.inp(x) + self.time(t))
        return self.out(nn.functional.silu(self.mid(h)) + h)


def waves(n, g):
    t = torch.arange(DIM) / DIM
    ph = 2 * math.pi * torch.rand(n, 1, generator=g)
    return 1.5 * torch.sin(2 * math.pi * t + ph)


def objective(model, batch):
    x, noise, t = batch
    a = KEEP[t].unsqueeze(1)
    pred = model(a.sqrt() * x + (1 - a).sqrt() * noise, t)
    return (pred.float() - noise).square().mean()


def noised(x, g):
    return x, torch.randn(x.shape, generator=g), torch.randint(STEPS, (len(x),), generator=g)


@torch.no_grad()
def sample(model, n):
    x = torch.randn(n, DIM)
    for t in reversed(range(STEPS)):
        eps = model(x, torch.full((n,), t))
        x = (x - BETA[t] / (1 - KEEP[t]).sqrt() * eps) / (1 - BETA[t]).sqrt()
        if t:
            x = x + BETA[t].sqrt() * torch.randn_like(x)
    return x


def build(path, held):
    model = Denoiser()
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    ema = Ema(model, 0.98)

    def score():
        with torch.no_grad():
            return objective(ema.shadow, held).item()

    spikes, ckpt = SkipSpikes(8.0), Checkpoint(path, ema)
    return Loop(model, opt, objective, [spikes, ema, ckpt, EarlyStop(score, 3)]), ema, spikes, ckpt


def main():
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(12)
    data = waves(960, g)
    data[::160] *= 400.0                      # a few clipped recordings were never rescaled
    held = noised(waves(400, g), g)

    def batches():
        for idx in torch.randperm(len(data), generator=g).split(32):
            yield noised(data[idx], g)

    path = os.path.join(tempfile.mkdtemp(), "last.pt")
    loop, ema, spikes, _ = build(path, held)
    loop.fit(batches, 4)
    print(f"first part done, {spikes.skipped} steps not taken")

    loop, ema, spikes, ckpt = build(path, held)
    ckpt.restore(loop)
    loop.fit(batches, 12)
    out = sample(ema.shadow, 200)
    power = torch.fft.rfft(out).abs().square().mean(0)
    print(f"second part done, {spikes.skipped} steps not taken, "
          f"share of power in the fundamental {power[1] / power.sum():.3f}")


if __name__ == "__main__":
    main()
