import argparse
import time

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class Pendulum(Dataset):
    """State (angle, speed, torque) -> next state, integrated with RK4 in numpy."""

    def __init__(self, n=2000, dt=0.05, seed=0):
        rng = np.random.default_rng(seed)
        s = np.stack([rng.uniform(-3, 3, n), rng.uniform(-2, 2, n)], 1)
        u = rng.uniform(-1, 1, (n, 1))

        def f(s):
            return np.stack([s[:, 1], -9.81 * np.sin(s[:, 0]) - 0.1 * s[:, 1] + u[:, 0]], 1)

        k1 = f(s)
        k2 = f(s + 0.5 * dt * k1)
        k3 = f(s + 0.5 * dt * k2)
        k4 = f(s + dt * k3)
        nxt = s + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        self.x = np.concatenate([s, u], 1)
        self.y = (nxt - s) / dt

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return torch.from_numpy(self.x[i]), torch.from_numpy(self.y[i])


class Dynamics(nn.Module):
    def __init__(self, hidden=128, depth=3):
        super().__init__()
        layers = [nn.Linear(3, hidden), nn.SiLU()]
        for _ in range(depth - 1):
            layers += [nn.Linear(hidden, hidden), nn.SiLU()]
        self.net = nn.Sequential(*layers, nn.Linear(hidden, 2))

    def forward(self, x):
        return self.net(x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=100)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--amp", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)

    loader = DataLoader(Pendulum(), batch_size=args.batch_size, shuffle=True)
    model = Dynamics().double()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)
    loss_fn = nn.SmoothL1Loss()

    for epoch in range(args.epochs):
        t0, total = time.time(), 0.0
        for x, y in loader:
            optimizer.zero_grad()
            with torch.autocast(device_type="cpu", dtype=torch.bfloat16, enabled=args.amp):
                pred = model(x)
                loss = loss_fn(pred, y)
            loss.backward()
            optimizer.step()
            total += loss.item()
        scheduler.step()
        print(f"epoch {epoch} loss {total / len(loader):.5f} time {time.time() - t0:.2f}s amp={args.amp}")


if __name__ == "__main__":
    main()
