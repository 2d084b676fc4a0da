"""Calibration of a pinhole camera's distortion with LBFGS, then a refinement network (AMP optional)."""
import argparse

import torch
from torch import nn


def distort(p, k):
    r2 = p.square().sum(-1, keepdim=True)
    return p * (1 + k[0] * r2 + k[1] * r2 * r2)


def calibrate(points, seen, rounds):
    k = torch.zeros(2, requires_grad=True)
    opt = torch.optim.LBFGS([k], lr=0.8, max_iter=8, line_search_fn="strong_wolfe")

    def closure():
        opt.zero_grad()
        loss = (distort(points, k) - seen).square().mean()
        loss.backward()
        return loss

    for i in range(rounds):
        print(f"lbfgs {i} loss {opt.step(closure).item():.3e} k {k.tolist()}")
    return k.detach()


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))

    def forward(self, p):
        return 0.1 * self.net(p)


def refine(args, points, seen, k):
    net = Residual()
    opt = torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", enabled=args.amp)
    worst = torch.tensor(float("-inf"))
    for step in range(args.steps):
        with torch.autocast("cpu", dtype=torch.float16, enabled=args.amp):
            out = distort(points, k) + net(points)
            loss = 100.0 * (out - seen).float().square().mean()
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        norm = nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        scaler.step(opt)
        scaler.update()
        worst = torch.maximum(worst, norm)
        if step % 20 == 19:
            print(f"refine {step + 1} loss {loss.item():.4f} largest norm {worst.item():.3f}")


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--amp", action="store_true", help="float16 for the refinement")
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--steps", type=int, default=80)
    args = ap.parse_args()
    torch.manual_seed(0)
    points = torch.rand(400, 2) * 2 - 1
    seen = distort(points, torch.tensor([-0.21, 0.06])) + 0.03 * torch.sin(4 * points.flip(-1))
    refine(args, points, seen, calibrate(points, seen, args.rounds))
