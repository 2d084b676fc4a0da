"""Estimate the rotation speed of a machine from vibration windows."""
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader

from windows import SlidingWindows, synth_recording


class TCN(nn.Module):
    def __init__(self, channels, width=24):
        super().__init__()
        layers = []
        for i, dilation in enumerate([1, 2, 4]):
            layers += [nn.Conv1d(channels if i == 0 else width, width, 3, padding=dilation, dilation=dilation), nn.GELU()]
        self.stack = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.Linear(32, 1))

    def forward(self, x):
        return self.head(self.stack(x).abs().mean(-1)).squeeze(-1)


def fit(model, loader, epochs, lr):
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=lr, total_steps=epochs * len(loader))
    for epoch in range(epochs):
        running = 0.0
        for i, (wave, speed) in enumerate(loader, 1):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                pred = model(wave)
            loss = nn.functional.smooth_l1_loss(pred.float(), speed, beta=0.05)
            loss.backward()
            optimizer.step()
            scheduler.step()
            running += loss.item()
            if i % 20 == 0:
                print(f"  epoch {epoch} batch {i}/{len(loader)} loss {running / i:.5f}")
        yield epoch, running / len(loader)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=4)
    ap.add_argument("--batch", type=int, default=8)
    ap.add_argument("--lr", type=float, default=4e-3)
    args = ap.parse_args()
    torch.manual_seed(2)
    train = SlidingWindows(*synth_recording(9000, 3, seed=1))
    loader = DataLoader(train, batch_size=args.batch, shuffle=True)
    model = TCN(3)
    for epoch, loss in fit(model, loader, args.epochs, args.lr):
        print(f"epoch {epoch} mean loss {loss:.5f}")


if __name__ == "__main__":
    main()
