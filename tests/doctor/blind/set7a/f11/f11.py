import os
import sys

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from f11.engine import FineTuner  # noqa: E402


def dataset(n=400, classes=3, seed=5):
    g = torch.Generator().manual_seed(seed)
    centre = torch.randn(classes, 20, generator=g) * 1.5
    y = torch.randint(0, classes, (n,), generator=g)
    return centre[y] + torch.randn(n, 20, generator=g), y


def main():
    x, y = dataset()
    tuner = FineTuner(classes=3, lr=3e-3)
    for epoch in range(10):
        total = 0.0
        batches = torch.randperm(320).split(32)
        for idx in batches:
            total += tuner.step(x[idx], y[idx])
        print(f"epoch {epoch}: loss {total / len(batches):.4f} val acc {tuner.accuracy(x[320:], y[320:]):.3f}")


if __name__ == "__main__":
    main()
