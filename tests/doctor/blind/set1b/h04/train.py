"""Physics informed network for u'' = -pi^2 sin(pi x): Adam, then LBFGS, in float32."""
import argparse
import math

import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))

    def forward(self, x):
        return self.body(x)


def residual(net, x):
    x = x.requires_grad_(True)
    u = net(x)
    du = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
    ddu = torch.autograd.grad(du.sum(), x, create_graph=True)[0]
    return ddu + math.pi ** 2 * torch.sin(math.pi * x)


def objective(net, x, edge):
    return residual(net, x).pow(2).mean() + 50.0 * net(edge).pow(2).mean()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--adam", type=int, default=150)
    ap.add_argument("--lbfgs", type=int, default=12)
    ap.add_argument("--half", action="store_true")
    args = ap.parse_args()
    torch.manual_seed(0)
    net = Net()
    x = torch.linspace(0, 1, 64).unsqueeze(1)
    edge = torch.tensor([[0.0], [1.0]])
    scaler = torch.amp.GradScaler("cpu", enabled=args.half)
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    lowest = torch.tensor(float("inf"))
    for i in range(args.adam):
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16, enabled=args.half):
            loss = objective(net, x, edge)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        lowest = torch.minimum(lowest, loss.detach())
        for name, p in net.named_parameters():
            print(f"adam {i} {name} mean {p.mean().item():+.5f} std {p.std(unbiased=False).item():.5f} grad {p.grad.abs().max().item():.5f}")
    print(f"after adam: loss {loss.item():.5f}, lowest {lowest.item():.5f}")

    fine = torch.optim.LBFGS(net.parameters(), max_iter=10, history_size=20, line_search_fn="strong_wolfe")
    calls = 0

    def closure():
        nonlocal calls
        calls += 1
        fine.zero_grad()
        value = objective(net, x, edge)
        value.backward()
        return value

    for i in range(args.lbfgs):
        value = fine.step(closure)
        lowest = torch.minimum(lowest, value.detach())
        print(f"lbfgs {i}: loss {value.item():.3e} closures {calls}")
    with torch.no_grad():
        err = (net(x) - torch.sin(math.pi * x)).abs().max().item()
    print(f"largest error {err:.2e}, lowest loss {lowest.item():.3e}")


if __name__ == "__main__":
    main()
