"""Heat equation on a rod with a small network: Adam in the beginning, then L-BFGS, both in float32 on the CPU."""
import argparse
import math

import torch


def make_net(widths, g):
    sizes = list(zip(widths, widths[1:]))
    ws = [(torch.randn(o, i, generator=g) * math.sqrt(1 / i)).requires_grad_() for i, o in sizes]
    bs = [torch.zeros(o, requires_grad=True) for _, o in sizes]

    def net(x):
        for n, (w, b) in enumerate(zip(ws, bs)):
            x = torch.addmm(b, x, w.t())
            if n + 1 < len(ws):
                x = torch.tanh(x)
        return x

    return net, ws + bs


def residual(net, points):
    points = points.requires_grad_()
    u = net(points)
    du, = torch.autograd.grad(u.sum(), points, create_graph=True)
    d2u, = torch.autograd.grad(du[:, 0].sum(), points, create_graph=True)
    return du[:, 1:2] - 0.1 * d2u[:, 0:1]


def problem(net, g):
    inside = torch.rand(96, 2, generator=g)
    start = torch.cat([torch.rand(32, 1, generator=g), torch.zeros(32, 1)], 1)
    ends = torch.cat([torch.randint(0, 2, (32, 1), generator=g).float(), torch.rand(32, 1, generator=g)], 1)

    def objective():
        return (residual(net, inside).square().mean()
                + (net(start) - torch.sin(math.pi * start[:, :1])).square().mean() + net(ends).square().mean())

    return objective


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--amp", action="store_true", help="half precision in the first phase (CUDA only)")
    ap.add_argument("--warmup", type=int, default=60)
    ap.add_argument("--lbfgs", type=int, default=10)
    args = ap.parse_args()
    use_amp = args.amp and torch.cuda.is_available()

    torch.manual_seed(0)
    g = torch.Generator().manual_seed(80)
    net, params = make_net([2, 24, 24, 1], g)
    objective = problem(net, g)
    scaler = torch.amp.GradScaler("cpu", enabled=use_amp)
    first = torch.optim.Adam(params, lr=5e-3)
    for i in range(args.warmup):
        first.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16, enabled=use_amp):
            loss = objective()
        scaler.scale(loss).backward()
        scaler.step(first)
        scaler.update()
        if i % 20 == 0:
            print(f"adam  {i:3d} {loss.item():.6f}")

    second = torch.optim.LBFGS(params, lr=1.0, max_iter=8, history_size=20, line_search_fn="strong_wolfe")
    calls = 0

    def closure():
        nonlocal calls
        calls += 1
        second.zero_grad()
        value = objective()
        value.backward()
        return value

    for i in range(args.lbfgs):
        value = second.step(closure)
        print(f"lbfgs {i:3d} {value.item():.6f} after {calls} evaluations")


if __name__ == "__main__":
    main()
