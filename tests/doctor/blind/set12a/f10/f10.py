"""A small denoising diffusion model on a 2-D spiral."""
import argparse
import math
import torch
import torch.nn as nn


def spiral(n):
    t = 3 * math.pi * torch.rand(n).sqrt()
    return torch.stack([t * t.cos(), t * t.sin()], 1) / 5 + 0.02 * torch.randn(n, 2)


class Schedule:
    def __init__(self, steps):
        self.steps = steps
        beta = torch.linspace(1e-3, 0.15, steps)
        self.beta = beta
        self.alpha = 1 - beta
        self.bar = torch.cumprod(self.alpha, 0)

    def corrupt(self, x, t):
        eps = torch.randn_like(x)
        a = self.bar[t][:, None]
        return a.sqrt() * x + (1 - a).sqrt() * eps, eps


class Denoiser(nn.Module):
    def __init__(self, hidden=64, freqs=6):
        super().__init__()
        self.register_buffer("freq", 2.0 ** torch.arange(freqs) * math.pi / 64)
        self.net = nn.Sequential(nn.Linear(2 + 2 * freqs, hidden), nn.ReLU(),
                                 nn.Linear(hidden, hidden), nn.ReLU(),
                                 nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 2))

    def forward(self, x, t):
        arg = t[:, None] * self.freq
        return self.net(torch.cat([x, arg.sin(), arg.cos()], 1))


@torch.no_grad()
def draw(model, sched, n):
    x = torch.randn(n, 2)
    for t in reversed(range(sched.steps)):
        eps = model(x, torch.full((n,), t))
        x = (x - sched.beta[t] / (1 - sched.bar[t]).sqrt() * eps) / sched.alpha[t].sqrt()
        if t:
            x = x + sched.beta[t].sqrt() * torch.randn_like(x)
    return x


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--iters", type=int, default=300)
    ap.add_argument("--batch", type=int, default=128)
    ap.add_argument("--lr", type=float, default=1.2)
    ap.add_argument("--momentum", type=float, default=0.9)
    ap.add_argument("--timesteps", type=int, default=32)
    args = ap.parse_args()
    torch.manual_seed(0)
    sched = Schedule(args.timesteps)
    model = Denoiser()
    opt = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=args.momentum, nesterov=True)
    for it in range(args.iters):
        x = spiral(args.batch)
        t = torch.randint(0, sched.steps, (args.batch,))
        xt, eps = sched.corrupt(x, t)
        loss = ((model(xt, t) - eps) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if it < 8 or it % 30 == 0:
            print(f"iter {it:4d} loss {loss.item():.5g}")
    s = draw(model, sched, 256)
    r = spiral(256)
    print("nearest distance", torch.cdist(s, r).min(1).values.mean().item())


if __name__ == "__main__":
    main()
