"""Train a 2-d point diffusion model (two moons style) with epsilon prediction."""
import argparse
import math

import torch

from f03.schedule import Schedule
from f03.net import Denoiser, ema_update, clone_of


def moons(n, gen):
    a = torch.rand(n, generator=gen) * math.pi
    top = torch.stack([a.cos(), a.sin()], 1)
    bottom = torch.stack([1 - a.cos(), 0.5 - a.sin()], 1)
    pick = (torch.rand(n, 1, generator=gen) < 0.5).float()
    pts = pick * top + (1 - pick) * bottom
    return pts + 0.04 * torch.randn(n, 2, generator=gen)


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=80)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--timesteps", type=int, default=1000)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--seed", type=int, default=5)
    return p.parse_args()


def main():
    args = parse()
    torch.manual_seed(args.seed)
    gen = torch.Generator().manual_seed(args.seed)
    data = moons(4096, gen)
    sched = Schedule(args.timesteps)
    net = Denoiser(width=64)
    ema = clone_of(net)
    opt = torch.optim.AdamW(net.parameters(), lr=args.lr)

    for step in range(args.steps):
        x0 = data[torch.randint(0, len(data), (args.batch,), generator=gen)]
        t = torch.randint(0, args.timesteps, (args.batch,), generator=gen)
        eps = torch.randn_like(x0)
        xt = sched.diffuse(x0, t, eps)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            pred = net(xt, t / args.timesteps)
        err = (pred.float() - eps).pow(2).mean(dim=1)
        loss = (sched.weight(t) * err).mean()
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        ema_update(ema, net, 0.98)
        if step % 5 == 0:
            print(f"step {step:3d} loss {loss.item():.4f}")

    with torch.no_grad():
        probe = ema(data[:8], torch.full((8,), 0.5))
    print("ema output", probe.float().abs().mean().item())


if __name__ == "__main__":
    main()
