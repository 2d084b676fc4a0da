"""Physics-informed network for Poisson's equation, Adam first and L-BFGS after it."""
import argparse
import math

import torch
import torch.nn as nn


class Sine(nn.Module):
    def forward(self, x):
        return torch.sin(2 * x)


class PINN(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, width), Sine(), nn.Linear(width, width), Sine(), nn.Linear(width, 1))

    def forward(self, xy):
        # hard boundary condition
        b = (xy * (1 - xy)).prod(1, keepdim=True)
        return b * self.net(xy)


def exact(xy):
    return torch.sin(math.pi * xy[:, :1]) * torch.sin(2 * math.pi * xy[:, 1:])


def residual(net, xy):
    xy = xy.requires_grad_(True)
    u = net(xy)
    du = torch.autograd.grad(u.sum(), xy, create_graph=True)[0]
    lap = 0
    for k in range(2):
        lap = lap + torch.autograd.grad(du[:, k].sum(), xy, create_graph=True)[0][:, k:k + 1]
    f = -5 * math.pi ** 2 * exact(xy.detach())
    return lap - f


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--adam", type=int, default=60)
    p.add_argument("--lbfgs", type=int, default=12)
    p.add_argument("--precision", choices=["32", "16"], default="32")
    a = p.parse_args()
    torch.manual_seed(0)
    use_amp = a.precision == "16"
    net = PINN()
    pts = torch.rand(256, 2)
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    scaler = torch.amp.GradScaler("cpu", enabled=use_amp)
    best = torch.tensor(float("inf"))
    for it in range(a.adam):
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16, enabled=use_amp):
            loss = residual(net, pts).pow(2).mean()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        best = torch.minimum(best, loss.detach())
        if it % 15 == 0:
            print(f"adam {it:3d} residual {loss.item():.3e}")

    lb = torch.optim.LBFGS(net.parameters(), lr=0.8, max_iter=6, history_size=20, line_search_fn="strong_wolfe")
    for it in range(a.lbfgs):
        def closure():
            lb.zero_grad()
            l = residual(net, pts).pow(2).mean()
            l.backward()
            return l
        loss = lb.step(closure)
        if it % 4 == 0:
            print(f"lbfgs {it:3d} residual {loss.item():.3e}")
    with torch.no_grad():
        q = torch.rand(500, 2)
        print(f"rel. error {((net(q) - exact(q)).norm() / exact(q).norm()).item():.4f}")


if __name__ == "__main__":
    main()
