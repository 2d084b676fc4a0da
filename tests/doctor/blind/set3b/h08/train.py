"""Tide forecasting with a recurrent net; towers in threads, gradients bounded by hooks."""
import threading

import torch
import torch.nn.functional as F
from torch import nn


class Bounded:
    """Keeps each gradient within +-limit in the units of the loss, however the loss is scaled."""

    def __init__(self, module, limit, scaler):
        self.limit, self.scaler, self.touched = limit, scaler, 0
        for p in module.parameters():
            p.register_hook(self)

    def __call__(self, grad):
        bound = self.limit * self.scaler.get_scale()
        self.touched += int((grad.abs() > bound).sum())
        return torch.clamp(grad, -bound, bound)


class Cell(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.inp, self.rec = nn.Linear(1, size), nn.Linear(size, size, bias=False)
        self.read = nn.Linear(size, 1)

    def forward(self, x):
        h = x.new_zeros(x.shape[0], self.rec.in_features)
        for t in range(x.shape[1]):
            h = torch.tanh(self.inp(x[:, t]) + self.rec(h))
        return self.read(h)


class Duo(nn.Module):
    """Short and long view of the same series, computed side by side."""

    def __init__(self, size=16):
        super().__init__()
        self.short, self.long = Cell(size), Cell(size)

    def forward(self, x):
        results, caster = {}, torch.is_autocast_enabled("cpu")
        dtype = torch.get_autocast_dtype("cpu")

        def work(name, net, view):
            with torch.autocast("cpu", dtype=dtype, enabled=caster, cache_enabled=False):
                results[name] = net(view)

        jobs = [threading.Thread(target=work, args=("short", self.short, x[:, -4:])),
                threading.Thread(target=work, args=("long", self.long, x[:, ::2]))]
        for j in jobs:
            j.start()
        for j in jobs:
            j.join()
        return (results["short"] + results["long"]).squeeze(-1)


def tides(batch, length, gen):
    t0 = 700 * torch.rand(batch, 1, generator=gen)
    t = t0 + torch.arange(length + 1)
    h = torch.sin(2 * torch.pi * t / 12.42) + 0.4 * torch.sin(2 * torch.pi * t / 12.0)
    h = h + 0.02 * torch.randn(h.shape, generator=gen)
    return h[:, :-1, None], h[:, -1]


def main(steps=70):
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(3)
    net = Duo()
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 14)
    guard = Bounded(net, 0.25, scaler)
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for step in range(1, steps + 1):
        x, y = tides(24, 12, gen)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.mse_loss(net(x), y)
        opt.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        if step % 10 == 0:
            print(f"{step:3d} mse {loss.item():.4f} bounded entries {guard.touched} scale {scaler.get_scale():.0f}")


if __name__ == "__main__":
    main()
