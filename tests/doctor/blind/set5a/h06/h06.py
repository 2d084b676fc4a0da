"""Physics-informed fit of a damped oscillator with L-BFGS; bfloat16 warm start with Adam."""
import math
import torch
import torch.nn as nn

torch.manual_seed(4)
OMEGA, DAMP = 3.0, 0.4


class Field(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))

    def forward(self, t):
        return self.net(t)


def exact(t):
    w = math.sqrt(OMEGA ** 2 - DAMP ** 2)
    return torch.exp(-DAMP * t) * (torch.cos(w * t) + DAMP / w * torch.sin(w * t))


def physics_loss(u, t, t0):
    t = t.clone().requires_grad_(True)
    y = u(t)
    dy, = torch.autograd.grad(y.sum(), t, create_graph=True)
    ddy, = torch.autograd.grad(dy.sum(), t, create_graph=True)
    residual = ddy + 2 * DAMP * dy + OMEGA ** 2 * y
    start = t0.clone().requires_grad_(True)
    y0 = u(start)
    d0, = torch.autograd.grad(y0.sum(), start, create_graph=True)
    return residual.pow(2).mean() / 20 + (y0 - 1).pow(2).mean() * 5 + d0.pow(2).mean()


def main():
    u = Field()
    t = torch.linspace(0, 2, 64).unsqueeze(1)
    t0 = torch.zeros(1, 1)
    coarse_t = torch.linspace(0, 2, 9).unsqueeze(1)
    coarse_y = exact(coarse_t) + 0.02 * torch.randn(9, 1)

    adam = torch.optim.Adam(u.parameters(), lr=1e-2)
    for i in range(60):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            pred = u(coarse_t)
        loss = nn.functional.mse_loss(pred.float(), coarse_y)
        adam.zero_grad()
        loss.backward()
        adam.step()
        if i % 20 == 0:
            print(f"warm start {i:2d} mse {loss.item():.5f}")

    lbfgs = torch.optim.LBFGS(u.parameters(), max_iter=12, history_size=20, line_search_fn="strong_wolfe")
    calls = 0

    def closure():
        nonlocal calls
        calls += 1
        lbfgs.zero_grad()
        loss = physics_loss(u, t, t0)
        loss.backward()
        return loss

    for outer in range(6):
        loss = lbfgs.step(closure)
        with torch.no_grad():
            err = (u(t) - exact(t)).abs().max()
        print(f"lbfgs {outer} loss {loss.item():.5f} max error {err:.4f} evaluations {calls}")


main()
