"""Train a small speech enhancement model on synthetic voiced sounds."""
import argparse
import math

import torch
from torch import nn

from enhance import Enhancer, clean_gradients, objective, si_sdr


def voiced(n, g, length=2048, level=30.0):
    """Harmonic sounds with a slow envelope plus broadband noise; 16 bit style units."""
    t = torch.arange(length).float()
    f0 = 0.02 + 0.02 * torch.rand(n, 1, generator=g)
    clean = torch.zeros(n, length)
    for k in range(1, 5):
        phase = 6.28 * torch.rand(n, 1, generator=g)
        clean += torch.sin(2 * math.pi * k * f0 * t + phase) / k
    env = 0.6 + 0.4 * torch.sin(2 * math.pi * t / length * (1 + 3 * torch.rand(n, 1, generator=g)))
    clean = level * clean * env
    noisy = clean + 0.7 * level * torch.randn(n, length, generator=g)
    return noisy, clean


class Runner:
    def __init__(self, args):
        self.net = Enhancer()
        self.opt = torch.optim.Adam(self.net.parameters(), lr=args.lr)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
        self.max_norm = args.max_norm

    def step(self, noisy, clean):
        self.net.train()
        with torch.autocast("cpu", dtype=torch.float16):
            est = self.net(noisy)
            loss = objective(est, clean)
        self.opt.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        clean_gradients(self.net)
        self.scaler.unscale_(self.opt)
        nn.utils.clip_grad_norm_(self.net.parameters(), self.max_norm)
        self.scaler.step(self.opt)
        self.scaler.update()
        return loss.item()

    @torch.no_grad()
    def validate(self, noisy, clean):
        self.net.eval()
        return si_sdr(self.net(noisy), clean).mean().item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=100)
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--max-norm", type=float, default=5.0)
    p.add_argument("--seed", type=int, default=29)
    args = p.parse_args()
    torch.manual_seed(args.seed)
    g = torch.Generator().manual_seed(args.seed)
    runner = Runner(args)
    held = voiced(16, torch.Generator().manual_seed(1000))
    print(f"noisy input {si_sdr(*held).mean().item():.2f} dB")
    for step in range(args.steps):
        loss = runner.step(*voiced(args.batch, g))
        if step % 10 == 0 or step == args.steps - 1:
            print(f"step {step:3d} loss {loss:.4f} valid {runner.validate(*held):.2f} dB "
                  f"scale {runner.scaler.get_scale():g}")


if __name__ == "__main__":
    main()
