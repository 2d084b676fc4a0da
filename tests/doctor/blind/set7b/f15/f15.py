"""Physics-informed network for the damped oscillator u'' + 2 z w u' + w^2 u = 0."""
import argparse
import time

import torch
import torch.nn as nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=150)
parser.add_argument("--points", type=int, default=64)
parser.add_argument("--width", type=int, default=32)
parser.add_argument("--lr", type=float, default=3e-3)
parser.add_argument("--omega", type=float, default=3.0)
parser.add_argument("--zeta", type=float, default=0.1)
opts = parser.parse_args()

torch.set_default_dtype(torch.float64)
torch.manual_seed(1)


class PINN(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(1, width), nn.Tanh(),
            nn.Linear(width, width), nn.Tanh(),
            nn.Linear(width, 1),
        )

    def forward(self, t):
        return self.net(t)


def derivative(y, x):
    return torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)[0]


def exact(t):
    w, z = opts.omega, opts.zeta
    wd = w * (1 - z * z) ** 0.5
    return torch.exp(-z * w * t) * (torch.cos(wd * t) + z * w / wd * torch.sin(wd * t))


def residual(u, t):
    du = derivative(u, t)
    ddu = derivative(du, t)
    return ddu + 2 * opts.zeta * opts.omega * du + opts.omega ** 2 * u


def step_loss(model):
    t = torch.rand(opts.points, 1).requires_grad_(True)
    t0 = torch.zeros(1, 1, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        u = model(t)
        u0 = model(t0)
    res = residual(u, t)
    ic = (u0 - 1.0).pow(2).mean() + 0.1 * derivative(u0, t0).pow(2).mean()
    return (res / opts.omega ** 2).pow(2).mean() + ic, u.dtype


def main():
    model = PINN(opts.width)
    optimizer = torch.optim.Adam(model.parameters(), lr=opts.lr)
    start = time.time()
    for step in range(opts.steps):
        loss, act_dtype = step_loss(model)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 30 == 0:
            print(f"step {step:4d} loss {loss.item():.5f} activations {act_dtype}")
    grid = torch.linspace(0, 1, 50).unsqueeze(1)
    with torch.no_grad():
        err = (model(grid) - exact(grid)).abs().max().item()
    print(f"max error {err:.4f} after {time.time() - start:.1f}s")


if __name__ == "__main__":
    main()
