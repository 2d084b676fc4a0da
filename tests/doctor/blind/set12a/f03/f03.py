"""RealNVP on two moons.  Each coupling net ends in a layer that starts as the identity map."""
import math
import torch
import torch.nn as nn
from torch.nn.utils.parametrizations import weight_norm


def two_moons(n, g):
    t = math.pi * torch.rand(n, generator=g)
    top = torch.rand(n, generator=g) < 0.5
    x = torch.where(top, t.cos(), 1 - t.cos())
    y = torch.where(top, t.sin(), 0.5 - t.sin())
    return torch.stack([x - 0.5, y - 0.25], 1) + 0.06 * torch.randn(n, 2, generator=g)


class CouplingNet(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.l1 = weight_norm(nn.Linear(1, hidden))
        self.l2 = weight_norm(nn.Linear(hidden, hidden))
        last = nn.Linear(hidden, 2)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        self.l3 = weight_norm(last)

    def forward(self, x):
        h = torch.relu(self.l1(x))
        h = torch.relu(self.l2(h))
        s, t = self.l3(h).chunk(2, dim=-1)
        return torch.tanh(s), t


class RealNVP(nn.Module):
    def __init__(self, layers=4, hidden=32):
        super().__init__()
        self.nets = nn.ModuleList(CouplingNet(hidden) for _ in range(layers))

    def log_prob(self, x):
        logdet = x.new_zeros(x.size(0))
        a, b = x[:, :1], x[:, 1:]
        for net in self.nets:
            s, t = net(a)
            b = b * s.exp() + t
            logdet = logdet + s.squeeze(1)
            a, b = b, a
        z = torch.cat([a, b], 1)
        return -0.5 * (z ** 2).sum(1) - math.log(2 * math.pi) + logdet


class Runner:
    def __init__(self, model, lr=2e-3, batch=128):
        self.model, self.batch = model, batch
        self.opt = torch.optim.Adam(model.parameters(), lr=lr)
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, 120)
        self.g = torch.Generator().manual_seed(11)

    def fit(self, steps):
        for i in range(steps):
            x = two_moons(self.batch, self.g)
            nll = -self.model.log_prob(x).mean()
            self.opt.zero_grad()
            nll.backward()
            self.opt.step()
            self.sched.step()
            if i % 20 == 0:
                print(f"{i:4d} nll {nll.item():.4f} lr {self.sched.get_last_lr()[0]:.5f}")
        with torch.no_grad():
            print("held out nll", -self.model.log_prob(two_moons(1000, self.g)).mean().item())


if __name__ == "__main__":
    torch.manual_seed(5)
    Runner(RealNVP()).fit(120)
