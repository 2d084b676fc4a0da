import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class Density(Dataset):
    """Predict a dense heat map (arbitrary units) from point counts."""

    def __init__(self, n=320, size=24, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.x = (torch.rand(n, 1, size, size, generator=g) < 0.02).float()
        k = torch.arange(-3, 4).float()
        kern = torch.exp(-(k[:, None] ** 2 + k[None] ** 2) / 4)[None, None]
        self.y = 30 * torch.nn.functional.conv2d(self.x, kern, padding=3)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class Net(nn.Module):
    def __init__(self, c=12):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, c, 5, padding=2), nn.ReLU(),
            nn.Conv2d(c, c, 5, padding=2), nn.ReLU(),
            nn.Conv2d(c, 1, 1),
        )

    def forward(self, x):
        return self.net(x)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=6)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--lr", type=float, default=3e-3)
    args = p.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(Density(), args.batch_size, shuffle=True)
    model = Net()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu")
    skipped = 0
    for epoch in range(args.epochs):
        total = 0.0
        for x, y in loader:
            opt.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.float16):
                out = model(x)
                loss = ((out.float() - y) ** 2).sum()
            scaler.scale(loss).backward()
            scaler.step(opt)
            before = scaler.get_scale()
            scaler.update()
            skipped += scaler.get_scale() < before
            total += loss.item()
        print(f"epoch {epoch} loss {total / len(loader):.1f} scale {scaler.get_scale():g} skipped {skipped}")


if __name__ == "__main__":
    main()
