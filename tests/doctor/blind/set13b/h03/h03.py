"""A coupling flow on positive amounts with many zeros (hurdle likelihood), half precision inside."""
import math

import torch
import torch.nn as nn


class Coupling(nn.Module):
    def __init__(self, flip, h=32):
        super().__init__()
        self.flip = flip
        self.net = nn.Sequential(nn.Linear(2, h), nn.ReLU(), nn.Linear(h, 4))
        nn.init.zeros_(self.net[-1].weight)
        nn.init.zeros_(self.net[-1].bias)

    def forward(self, x):
        a, b = x.chunk(2, dim=1)
        if self.flip:
            a, b = b, a
        s, t = self.net(a).float().chunk(2, dim=1)
        s = 3.0 * torch.tanh(s)
        b = b * s.exp() + t
        return torch.cat([b, a] if self.flip else [a, b], dim=1), s.sum(1)


class Flow(nn.Module):
    def __init__(self, depth=4):
        super().__init__()
        self.steps = nn.ModuleList([Coupling(i % 2 == 1) for i in range(depth)])
        self.zero_logit = nn.Parameter(torch.zeros(4))

    def nll(self, x):
        pos = x > 0
        lx = torch.where(pos, x, torch.ones_like(x)).log()
        lx = torch.where(pos, lx, torch.randn_like(lx))
        with torch.autocast("cpu", enabled=False):
            hurdle = nn.functional.binary_cross_entropy_with_logits(
                self.zero_logit.expand_as(x), (~pos).float(), reduction="none"
            ).sum(1)
        z, logdet = lx, 0.0
        for s in self.steps:
            z, ld = s(z)
            logdet = logdet + ld
        base = 0.5 * z.pow(2).sum(1) + 2 * math.log(2 * math.pi)
        # change of variables for the logarithm counts where it was taken
        return (hurdle + base - logdet + (lx * pos).sum(1)).mean()


def amounts(n):
    raw = torch.randn(n, 4) @ torch.tensor([[1.0, 0.8, 0, 0], [0, 0.5, 0, 0.3], [0, 0, 0.4, 0.4], [0, 0, 0, 0.2]])
    x = (raw + 1.0).exp()
    return torch.where(torch.rand(n, 4) < torch.tensor([0.1, 0.3, 0.05, 0.2]), torch.zeros_like(x), x)


if __name__ == "__main__":
    torch.manual_seed(12)
    flow = Flow()
    opt = torch.optim.Adam(flow.parameters(), lr=4e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 12)
    avg = None
    for it in range(1, 151):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = flow.nll(amounts(128))
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        avg = loss.item() if avg is None else 0.9 * avg + 0.1 * loss.item()
        if it % 25 == 0:
            print(f"{it} nll {avg:.4f}")
