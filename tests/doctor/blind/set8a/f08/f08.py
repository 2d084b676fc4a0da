import argparse
import math

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def sine_windows(n=800, window=40, seed=0):
    g = torch.Generator().manual_seed(seed)
    phase = 2 * math.pi * torch.rand(n, 1, generator=g)
    freq = 0.1 + 0.2 * torch.rand(n, 1, generator=g)
    amp = 1 + 2 * torch.rand(n, 1, generator=g)
    t = torch.arange(window + 1).float()
    s = amp * torch.sin(freq * t + phase) + 0.05 * torch.randn(n, window + 1, generator=g)
    return TensorDataset(s[:, :-1, None], s[:, 1:, None])


class ElmanForecaster(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.hidden = hidden
        self.inp = nn.Linear(1, hidden)
        self.rec = nn.Linear(hidden, hidden)
        self.out = nn.Linear(hidden, 1)
        nn.init.orthogonal_(self.rec.weight)

    def forward(self, x):
        h = x.new_zeros(x.shape[0], self.hidden)
        ys = []
        for t in range(x.shape[1]):
            h = torch.relu(self.inp(x[:, t]) + self.rec(h))
            ys.append(self.out(h))
        return torch.stack(ys, 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--momentum", type=float, default=0.9)
    args = parser.parse_args()

    torch.manual_seed(0)
    loader = DataLoader(sine_windows(), batch_size=args.batch_size, shuffle=True)
    model = ElmanForecaster()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=args.momentum, nesterov=True)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.98)
    criterion = nn.MSELoss()

    step = 0
    for epoch in range(args.epochs):
        for x, y in loader:
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                pred = model(x)
                loss = criterion(pred, y)
            loss.backward()
            optimizer.step()
            if step % 5 == 0:
                print(f"epoch {epoch} step {step} mse {loss.item():.4g}")
            step += 1
        scheduler.step()


if __name__ == "__main__":
    main()
