"""Physics-informed fit of a damped oscillator; Adam warm-up, then L-BFGS."""
import argparse

import torch
import torch.nn as nn

MU, K = 4.0, 60.0


class Net(nn.Module):
    def __init__(self, h=24):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(1, h), nn.Tanh(), nn.Linear(h, h), nn.Tanh(), nn.Linear(h, 1))

    def forward(self, t):
        return self.f(t)


def residuals(net, t):
    t = t.requires_grad_(True)
    u = net(t)
    du = torch.autograd.grad(u.sum(), t, create_graph=True)[0]
    ddu = torch.autograd.grad(du.sum(), t, create_graph=True)[0]
    return ddu + MU * du + K * u


def loss_fn(net, t):
    t0 = torch.zeros(1, 1, requires_grad=True)
    u0 = net(t0)
    du0 = torch.autograd.grad(u0.sum(), t0, create_graph=True)[0]
    return (u0 - 1).square().mean() + 0.1 * du0.square().mean() + 1e-4 * residuals(net, t).square().mean()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--amp", action="store_true")
    ap.add_argument("--warmup", type=int, default=60)
    ap.add_argument("--lbfgs", type=int, default=6)
    a = ap.parse_args()
    torch.manual_seed(3)
    net = Net()
    t = torch.linspace(0, 1, 80).view(-1, 1)
    adam = torch.optim.Adam(net.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler("cpu", enabled=a.amp)
    best = torch.tensor(float("inf"))
    for i in range(a.warmup):
        adam.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16, enabled=a.amp):
            loss = loss_fn(net, t)
        scaler.scale(loss).backward()
        scaler.step(adam)
        scaler.update()
        best = torch.minimum(best, loss.detach())
    print(f"adam: loss {loss.item():.5f} best {best.item():.5f}")

    lbfgs = torch.optim.LBFGS(net.parameters(), lr=0.8, max_iter=12, history_size=20, line_search_fn="strong_wolfe")
    calls = 0

    def closure():
        nonlocal calls
        calls += 1
        lbfgs.zero_grad()
        value = loss_fn(net, t)
        value.backward()
        return value

    for i in range(a.lbfgs):
        value = lbfgs.step(closure)
        print(f"lbfgs {i}: loss {value.item():.6f} ({calls} evaluations)")


if __name__ == "__main__":
    main()
