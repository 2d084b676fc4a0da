"""Surrogate model of a heat equation: initial field to field after some time."""
import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

from engine import Trainer


def simulate(n, cells, steps, seed):
    g = torch.Generator().manual_seed(seed)
    grid = torch.linspace(0, 6.2832, cells)
    amp = torch.randn(n, 3, 1, generator=g)
    freq = torch.arange(1, 4).view(1, 3, 1)
    phase = torch.rand(n, 3, 1, generator=g) * 6.28
    u0 = (amp * torch.sin(freq * grid + phase)).sum(1)
    u = u0.clone()
    for _ in range(steps):
        u = u + 0.2 * (u.roll(1, -1) - 2 * u + u.roll(-1, -1))
    return u0, u


class EnergyLoss(nn.Module):
    """Squared error integrated over one cell and one time step."""

    def __init__(self, spacing, dt):
        super().__init__()
        self.volume = spacing * dt

    def forward(self, pred, target):
        return self.volume * (pred - target).square().mean()


class Operator(nn.Module):
    def __init__(self, width=24, depth=3):
        super().__init__()
        self.lift = nn.Conv1d(1, width, 1)
        self.convs = nn.ModuleList(
            nn.Conv1d(width, width, 7, padding=3, padding_mode="circular") for _ in range(depth))
        self.drop = nn.Conv1d(width, 1, 1, bias=False)

    def forward(self, x):
        h = self.lift(x)
        for c in self.convs:
            h = h + torch.nn.functional.gelu(c(h))
        return self.drop(h)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--epochs", type=int, default=8)
    p.add_argument("--cells", type=int, default=64)
    p.add_argument("--accumulate", type=int, default=2)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--dt", type=float, default=1e-4)
    p.add_argument("--no-amp", action="store_true")
    args = p.parse_args()
    torch.manual_seed(3)
    tensors = []
    for n, seed in ((768, 1), (128, 2)):
        u0, u = simulate(n, args.cells, 12, seed)
        tensors.append(TensorDataset(u0[:, None], u[:, None]))
    train = DataLoader(tensors[0], 32, shuffle=True)
    test = DataLoader(tensors[1], 64)
    model = Operator()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    criterion = EnergyLoss(6.2832 / args.cells, args.dt)
    trainer = Trainer(model, opt, criterion, amp=not args.no_amp, accumulate=args.accumulate)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs)
    for epoch in range(args.epochs):
        a = trainer.run(train)
        sched.step()
        print(f"epoch {epoch} train {a:.3e} test {trainer.test(test):.3e}")


if __name__ == "__main__":
    main()
