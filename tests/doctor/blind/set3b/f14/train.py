"""Self-supervised embedding of short accelerometer snippets."""
import argparse

import torch
from torch import nn

from engine import Step
from losses import PairContrast


def snippets(n, classes=6, length=24, seed=0):
    g = torch.Generator().manual_seed(seed)
    y = torch.arange(n) % classes
    basis = torch.randn(classes, 3, length, generator=g).cumsum(-1) / 3
    return basis[y] + 0.9 * torch.randn(n, 3, length, generator=g), y


def augment(x, gen):
    scale = 1.0 + 0.2 * torch.randn(len(x), 1, 1, generator=gen)
    return x * scale + 0.6 * torch.randn(x.shape, generator=gen)


def encoder(dim=16):
    return nn.Sequential(
        nn.Conv1d(3, 12, 5, stride=2), nn.ReLU(),
        nn.Conv1d(12, 16, 3, stride=2), nn.ReLU(),
        nn.Flatten(), nn.Linear(64, dim),
    )


@torch.no_grad()
def neighbour_accuracy(model, x, y):
    z = nn.functional.normalize(model(x), dim=1)
    sim = z @ z.T
    sim.fill_diagonal_(-2.0)
    return (y[sim.argmax(1)] == y).float().mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=80)
    ap.add_argument("--batch", type=int, default=24)
    ap.add_argument("--temperature", type=float, nargs=2, default=(0.2, 0.06))
    args = ap.parse_args()
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    x, y = snippets(180)
    model = encoder()
    step = Step(model, PairContrast(*args.temperature, steps=args.steps // 2), torch.optim.SGD(model.parameters(), lr=0.05))
    for i in range(1, args.steps + 1):
        pick = torch.randperm(len(x), generator=gen)[: args.batch]
        loss = step(augment(x[pick], gen), augment(x[pick], gen))
        if i % 16 == 0:
            model.eval()
            print(f"{i:4d} loss {loss:.3f} nn-acc {neighbour_accuracy(model, x, y):.3f}")
            model.train()


if __name__ == "__main__":
    main()
