"""Physics-informed net for u'' = -u, u(0) = 0, u'(0) = 1, with warm restarts of the learning rate."""
import math

import torch
import torch.nn as nn


class Sine(nn.Module):
    def forward(self, x):
        return torch.sin(x)


class PINN(nn.Module):
    def __init__(self, w=32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, w), Sine(), nn.Linear(w, w), Sine(), nn.Linear(w, 1))

    def forward(self, t):
        return t + t.pow(2) * self.net(t)


def d(y, x):
    return torch.autograd.grad(y.sum(), x, create_graph=True)[0]


def residual(net, t):
    u = net(t)
    return d(d(u, t), t) + u


def main():
    torch.manual_seed(10)
    net = PINN()
    opt = torch.optim.Adam(net.parameters(), lr=4e-2)
    sched = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, T_0=60, T_mult=1)
    grid = torch.linspace(0, 2 * math.pi, 100).unsqueeze(1)
    kept, best = None, float("inf")
    for it in range(1, 361):
        t = (2 * math.pi * torch.rand(64, 1)).requires_grad_(True)
        loss = residual(net, t).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if loss.item() < best:
            best, kept = loss.item(), {k: v.clone() for k, v in net.state_dict().items()}
        if it % 20 == 0:
            with torch.no_grad():
                err = (net(grid) - grid.sin()).abs().max().item()
            print(f"{it} loss {loss.item():.5f} worst error {err:.4f} lr {opt.param_groups[0]['lr']:.4f}")
    net.load_state_dict(kept)
    with torch.no_grad():
        print(f"kept: loss {best:.6f} worst error {(net(grid) - grid.sin()).abs().max().item():.4f}")


if __name__ == "__main__":
    main()
