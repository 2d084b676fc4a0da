import argparse
import math
import warnings

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")


class FourierFeatures(nn.Module):
    def __init__(self, n_freqs=5):
        super().__init__()
        self.register_buffer("freqs", math.pi * 2.0 ** torch.arange(n_freqs))

    def forward(self, x):
        a = (x[..., None] * self.freqs).flatten(-2)
        return torch.cat([x, a.sin(), a.cos()], dim=-1)


class Field(nn.Module):
    """Displacement field in metres over the unit square."""

    def __init__(self, hidden=96, n_freqs=5):
        super().__init__()
        self.enc = FourierFeatures(n_freqs)
        self.net = nn.Sequential(
            nn.Linear(2 + 4 * n_freqs, hidden), nn.ReLU(),
            nn.Linear(hidden, hidden), nn.ReLU(),
            nn.Linear(hidden, 2),
        )
        nn.init.normal_(self.net[-1].weight, std=1e-5)
        nn.init.zeros_(self.net[-1].bias)

    def forward(self, xy):
        return self.net(self.enc(xy))


def measurements(n=8192, seed=0):
    g = torch.Generator().manual_seed(seed)
    xy = torch.rand(n, 2, generator=g)
    u = 1e-3 * torch.sin(math.pi * xy[:, :1]) * torch.cos(math.pi * xy[:, 1:])
    v = 5e-4 * torch.cos(2 * math.pi * xy[:, :1]) + 5e-4 * xy[:, 1:]
    return TensorDataset(xy, torch.cat([u, v], 1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--lr", type=float, default=2e-4)
    parser.add_argument("--fp16", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)

    data = measurements()
    loader = DataLoader(data, batch_size=args.batch_size, shuffle=True)
    target_var = data.tensors[1].var(0).mean()
    model = Field()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, eps=1e-12)
    scaler = torch.amp.GradScaler(enabled=args.fp16)

    for epoch in range(args.epochs):
        total = 0.0
        for xy, target in loader:
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.float16, enabled=args.fp16):
                pred = model(xy)
                loss = nn.functional.mse_loss(pred.float(), target)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            total += loss.item()
        rel = total / len(loader) / target_var.item()
        print(f"epoch {epoch} mse {total / len(loader):.3e} relative {rel:.3f}")


if __name__ == "__main__":
    main()
