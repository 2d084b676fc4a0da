import argparse
import math

import torch
import torch.nn as nn


class Burst(nn.Module):
    """u(x) for u'' = f with zero boundary values, as a small tanh network times x(1-x)."""

    def __init__(self, hidden=32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 1))

    def forward(self, x):
        return self.net(x) * x * (1 - x)


def source(x):
    return -(math.pi ** 2) * torch.sin(math.pi * x) - 4 * math.pi ** 2 * 0.3 * torch.sin(2 * math.pi * x)


def exact(x):
    return torch.sin(math.pi * x) + 0.3 * torch.sin(2 * math.pi * x)


def fit_data(model, x, steps, amp):
    opt = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=8, history_size=10, line_search_fn="strong_wolfe")
    history = []

    def closure():
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=amp):
            loss = nn.functional.mse_loss(model(x), exact(x))
        loss.backward()
        history.append(loss.item())
        return loss

    for s in range(steps):
        opt.step(closure)
        print(f"stage 1 step {s} loss {history[-1]:.5f} evals {len(history)}")


def fit_residual(model, x, steps, weight):
    opt = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=8, line_search_fn="strong_wolfe")
    last = [0.0]

    def closure():
        opt.zero_grad()
        xr = x.clone().requires_grad_(True)
        u = model(xr)
        (du,) = torch.autograd.grad(u.sum(), xr, create_graph=True)
        (ddu,) = torch.autograd.grad(du.sum(), xr, create_graph=True)
        loss = weight * (ddu - source(xr)).pow(2).mean()
        loss.backward()
        last[0] = loss.item()
        return loss

    for s in range(steps):
        opt.step(closure)
        print(f"stage 2 step {s} residual {last[0]:.5f}")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--points", type=int, default=128)
    ap.add_argument("--data-steps", type=int, default=10)
    ap.add_argument("--residual-steps", type=int, default=10)
    ap.add_argument("--weight", type=float, default=1e-2)
    ap.add_argument("--no-amp", action="store_true")
    args = ap.parse_args()
    torch.manual_seed(0)
    x = torch.linspace(0, 1, args.points)[:, None]
    model = Burst()
    fit_data(model, x, args.data_steps, not args.no_amp)
    fit_residual(model, x, args.residual_steps, args.weight)
    with torch.no_grad():
        print(f"max error {(model(x) - exact(x)).abs().max():.4f}")


if __name__ == "__main__":
    main()
