"""Small denoising diffusion on 2-D data with EMA, resumed once from its own checkpoint."""
import argparse
import copy
import math
import os
import tempfile

import torch
from torch import nn


class Noise:
    def __init__(self, steps=50):
        beta = torch.linspace(1e-3, 0.15, steps)
        self.alpha_bar = torch.cumprod(1 - beta, 0)
        self.beta, self.steps = beta, steps

    def corrupt(self, x, t, eps):
        a = self.alpha_bar[t][:, None]
        return a.sqrt() * x + (1 - a).sqrt() * eps


class Net(nn.Module):
    def __init__(self, steps, width=48):
        super().__init__()
        self.time = nn.Embedding(steps, 16)
        self.net = nn.Sequential(nn.Linear(18, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 2))

    def forward(self, x, t):
        return self.net(torch.cat([x, self.time(t)], 1))


def moons(n):
    t = math.pi * torch.rand(n)
    flip = (torch.rand(n) < 0.5).float()[:, None]
    up = torch.stack([t.cos(), t.sin()], 1)
    x = (1 - flip) * up + flip * torch.stack([1 - t.cos(), 0.5 - t.sin()], 1)
    x = x + 0.05 * torch.randn(n, 2)
    # sometimes the sensor glitches and a batch holds far points
    if torch.rand(()) < 0.08:
        x[:4] *= 60.0
    return x


class State:
    def __init__(self, noise, lr):
        self.net = Net(noise.steps)
        self.ema = copy.deepcopy(self.net).requires_grad_(False)
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=lr)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 22)
        self.step = 0

    def dump(self):
        return {k: getattr(self, k).state_dict() for k in ("net", "ema", "opt", "scaler")} | {"step": self.step}

    def load(self, blob):
        for k in ("net", "ema", "opt", "scaler"):
            getattr(self, k).load_state_dict(blob[k])
        self.step = blob["step"]


def advance(state, noise, until, norms):
    while state.step < until:
        x = moons(48)
        t = torch.randint(0, noise.steps, (48,))
        eps = torch.randn_like(x)
        with torch.autocast("cpu", dtype=torch.float16):
            guess = state.net(noise.corrupt(x, t, eps), t)
        loss = (guess.float() - eps).square().mean()
        state.opt.zero_grad(set_to_none=True)
        state.scaler.scale(loss).backward()
        state.scaler.unscale_(state.opt)
        norms.append(nn.utils.clip_grad_norm_(state.net.parameters(), 1.0).item())
        state.scaler.step(state.opt)
        state.scaler.update()
        with torch.no_grad():
            for e, p in zip(state.ema.parameters(), state.net.parameters()):
                e.lerp_(p, 0.05)
        state.step += 1
        if state.step % 15 == 0:
            print(f"{state.step:3d} loss {loss.item():9.4f} largest norm {max(norms):.3g} scale {state.scaler.get_scale():.0f}")


@torch.inference_mode()
def draw(state, noise, n):
    x = torch.randn(n, 2)
    with torch.autocast("cpu", dtype=torch.float16):
        for i in reversed(range(noise.steps)):
            t = torch.full((n,), i)
            b, a = noise.beta[i], noise.alpha_bar[i]
            x = (x - b / (1 - a).sqrt() * state.ema(x, t)) / (1 - b).sqrt()
            if i:
                x = x + b.sqrt() * torch.randn_like(x)
    return x


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=90)
    ap.add_argument("--lr", type=float, default=4e-3)
    args = ap.parse_args()
    torch.manual_seed(0)
    noise, norms = Noise(), []
    first = State(noise, args.lr)
    advance(first, noise, args.steps // 2, norms)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "last.pt")
        torch.save(first.dump(), path)
        second = State(noise, args.lr)
        second.load(torch.load(path))
    advance(second, noise, args.steps, norms)
    pts = draw(second, noise, 200)
    print("samples: mean", pts.mean(0).tolist(), "std", pts.std(0).tolist())
