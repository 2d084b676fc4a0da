import argparse
import math

import torch
import torch.nn as nn

ap = argparse.ArgumentParser(description="heat equation, L-BFGS polish after Adam")
ap.add_argument("--adam", type=int, default=60)
ap.add_argument("--lbfgs", type=int, default=8)
ap.add_argument("--mixed", action="store_true")
opt = ap.parse_args()

torch.manual_seed(0)


class Sine(nn.Module):
    def forward(self, x):
        return torch.sin(x)


net = nn.Sequential(nn.Linear(2, 32), Sine(), nn.Linear(32, 32), Sine(), nn.Linear(32, 1))
scaler = torch.amp.GradScaler("cpu", enabled=opt.mixed)
K = 0.1


def residual(n):
    xt = torch.rand(n, 2, requires_grad=True)
    u = net(xt)
    g = torch.autograd.grad(u.sum(), xt, create_graph=True)[0]
    uxx = torch.autograd.grad(g[:, 0].sum(), xt, create_graph=True)[0][:, 0]
    return g[:, 1] - K * uxx


def boundary(n):
    x = torch.rand(n, 1)
    init = torch.cat([x, torch.zeros_like(x)], 1)
    side = torch.cat([torch.randint(0, 2, (n, 1)).float(), torch.rand(n, 1)], 1)
    a = net(init).squeeze(1) - torch.sin(math.pi * x).squeeze(1)
    return a.square().mean() + net(side).square().mean()


def objective(n=256):
    with torch.autocast("cpu", dtype=torch.float16, enabled=opt.mixed):
        return residual(n).square().mean() + 10 * boundary(n)


adam = torch.optim.Adam(net.parameters(), lr=5e-3)
best = float("inf")
for i in range(opt.adam):
    adam.zero_grad()
    loss = objective()
    scaler.scale(loss).backward()
    scaler.step(adam)
    scaler.update()
    best = min(best, loss.item())
    if i % 10 == 0:
        print(f"adam  {i:3d} {loss.item():.4e} best {best:.4e}")

lb = torch.optim.LBFGS(net.parameters(), lr=0.5, max_iter=5, line_search_fn="strong_wolfe")
for i in range(opt.lbfgs):
    state = torch.random.get_rng_state()

    def closure():
        torch.random.set_rng_state(state)
        lb.zero_grad()
        loss = objective(512)
        loss.backward()
        return loss

    loss = lb.step(closure)
    print(f"lbfgs {i:3d} {loss.item():.4e}")
