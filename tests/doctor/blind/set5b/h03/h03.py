"""Density estimation on tabular data with coupling layers, float16."""
import argparse
import math

import torch
from torch import nn


class Coupling(nn.Module):
    def __init__(self, d, flip, width=48):
        super().__init__()
        self.flip = flip
        self.cut = d // 2
        self.net = nn.Sequential(nn.Linear(self.cut, width), nn.ReLU(),
                                 nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2 * (d - self.cut)))
        nn.init.zeros_(self.net[-1].weight)
        nn.init.zeros_(self.net[-1].bias)

    def forward(self, x):
        if self.flip:
            x = x.flip(-1)
        a, b = x[:, :self.cut], x[:, self.cut:]
        s, t = self.net(a).float().chunk(2, -1)
        s = 2 * torch.tanh(s / 2)
        b = (b - t) * torch.exp(-s)
        return torch.cat([a, b], -1), -s.sum(-1)


class Flow(nn.Module):
    def __init__(self, d, layers):
        super().__init__()
        self.layers = nn.ModuleList(Coupling(d, i % 2 == 1) for i in range(layers))
        self.d = d

    def log_prob(self, x):
        total = x.new_zeros(len(x))
        for layer in self.layers:
            x, ld = layer(x)
            total = total + ld
        return total - 0.5 * x.float().pow(2).sum(-1) - 0.5 * self.d * math.log(2 * math.pi)


def spirals(n):
    t = torch.rand(n) * 3
    xy = torch.stack([t * torch.cos(2 * t), t * torch.sin(2 * t)], -1) / 2
    extra = torch.stack([xy[:, 0] * xy[:, 1], xy[:, 0] - 0.5 * xy[:, 1]], -1)
    return torch.cat([xy, extra], -1) + 0.1 * torch.randn(n, 4)


def main(a):
    torch.manual_seed(a.seed)
    x = spirals(2000)
    flow = Flow(4, a.layers)
    opt = torch.optim.Adam(flow.parameters(), lr=a.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, a.steps)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** a.log2_scale, growth_interval=50)
    skipped = 0
    for step in range(a.steps):
        xb = x[torch.randint(0, len(x), (a.batch,))]
        with torch.autocast("cpu", dtype=torch.float16):
            nll = -flow.log_prob(xb).mean()
        opt.zero_grad(set_to_none=True)
        scaler.scale(nll).backward()
        scaler.unscale_(opt)
        norm = nn.utils.clip_grad_norm_(flow.parameters(), 10.0)
        before = scaler.get_scale()
        scaler.step(opt)
        scaler.update()
        if scaler.get_scale() < before:
            skipped += 1
        else:
            sched.step()
        if step % 25 == 0:
            print(f"step {step:4d} nll {nll.item():.4f} norm {norm.item():.2f} scale {scaler.get_scale():g}")
    print(f"final nll {nll.item():.4f}, skipped {skipped}")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--layers", type=int, default=4)
    p.add_argument("--steps", type=int, default=150)
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--lr", type=float, default=4e-3)
    p.add_argument("--log2-scale", type=int, default=28)
    p.add_argument("--seed", type=int, default=0)
    main(p.parse_args())
