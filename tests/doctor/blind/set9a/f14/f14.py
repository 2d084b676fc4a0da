"""Physics-informed fit of a damped oscillator with a parameter estimate."""
import argparse
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Measurements(Dataset):
    def __init__(self, n, noise=0.02, seed=0):
        rng = np.random.default_rng(seed)
        self.t = rng.uniform(0, 6, (n, 1))
        clean = np.exp(-0.25 * self.t) * np.cos(2.0 * self.t)
        self.x = clean + noise * rng.standard_normal((n, 1))

    def __len__(self):
        return len(self.t)

    def __getitem__(self, i):
        return torch.from_numpy(self.t[i]), torch.from_numpy(self.x[i])


class Surrogate(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        dims = [1] + [width] * depth
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in zip(dims, dims[1:]))
        self.out = nn.Linear(width, 1)
        self.damping = nn.Parameter(torch.tensor(0.1))
        self.stiffness = nn.Parameter(torch.tensor(3.0))

    def forward(self, t):
        h = t / 3 - 1
        for layer in self.hidden:
            h = torch.tanh(layer(h))
        return self.out(h)


def residual(model, t, h=0.05):
    x0, xm, xp = model(t), model(t - h), model(t + h)
    vel = (xp - xm) / (2 * h)
    acc = (xp - 2 * x0 + xm) / h ** 2
    return acc + 2 * model.damping * vel + model.stiffness * x0


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=40)
    ap.add_argument("--width", type=int, default=64)
    ap.add_argument("--depth", type=int, default=3)
    ap.add_argument("--lr", type=float, default=1e-2)
    ap.add_argument("--physics", type=float, default=2e-4)
    args = ap.parse_args()
    torch.manual_seed(0)

    loader = DataLoader(Measurements(640), batch_size=64, shuffle=True)
    model = Surrogate(args.width, args.depth).double()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)

    for epoch in range(args.epochs):
        start, fit_sum, phys_sum = time.time(), 0.0, 0.0
        for t, x in loader:
            optimizer.zero_grad()
            with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
                fit = nn.functional.mse_loss(model(t), x)
                phys = residual(model, t).pow(2).mean()
                loss = fit + args.physics * phys
            loss.backward()
            optimizer.step()
            fit_sum += fit.item()
            phys_sum += phys.item()
        scheduler.step()
        n = len(loader)
        if epoch % 4 == 3:
            print(f"epoch {epoch:2d}  fit {fit_sum / n:.5f}  physics {phys_sum / n:.4f}  "
                  f"k {model.stiffness.item():.3f}  {time.time() - start:.2f}s")


if __name__ == "__main__":
    main()
