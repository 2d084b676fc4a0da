"""Siamese verification on small sensor signatures."""
import argparse
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class SignaturePairs(Dataset):
    """Half of the pairs come from one person, half from two."""

    def __init__(self, people, takes, length=64, pairs=512, seed=0):
        g = torch.Generator().manual_seed(seed)
        knots = torch.randn(people, 1, 8, generator=g)
        style = nn.functional.interpolate(knots, size=length, mode="linear", align_corners=True)
        self.signal = style + 0.35 * torch.randn(people, takes, length, generator=g)
        self.pairs = pairs
        self.rng = random.Random(seed)

    def __len__(self):
        return self.pairs

    def __getitem__(self, i):
        people, takes, _ = self.signal.shape
        a = self.rng.randrange(people)
        same = i % 2
        b = a if same else (a + self.rng.randrange(1, people)) % people
        left = self.signal[a, self.rng.randrange(takes)]
        right = self.signal[b, self.rng.randrange(takes)]
        return left[None], right[None], torch.tensor(float(same))


class Tower(nn.Module):
    def __init__(self, width=16, dim=24):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(1, width, 5, padding=2), nn.ReLU(), nn.MaxPool1d(2),
            nn.Conv1d(width, width, 5, padding=2), nn.ReLU(), nn.MaxPool1d(2),
        )
        self.fc = nn.Linear(width * 16, dim)

    def forward(self, x):
        return self.fc(self.body(x).flatten(1))


class ContrastiveLoss(nn.Module):
    def __init__(self, margin=2.0):
        super().__init__()
        self.margin = margin

    def forward(self, a, b, same):
        diff = a.float() - b.float()
        d = diff.pow(2).sum(1).sqrt()
        pull = same * d.pow(2)
        push = (1 - same) * (self.margin - d).clamp(min=0).pow(2)
        return (pull + push).mean(), d.detach()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=6)
    ap.add_argument("--batch-size", type=int, default=32)
    ap.add_argument("--takes", type=int, default=5)
    ap.add_argument("--lr", type=float, default=2e-3)
    args = ap.parse_args()
    torch.manual_seed(0)

    data = SignaturePairs(people=24, takes=args.takes)
    loader = DataLoader(data, batch_size=args.batch_size, shuffle=True)
    tower = Tower()
    criterion = ContrastiveLoss()
    optimizer = torch.optim.Adam(tower.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 10)

    for epoch in range(args.epochs):
        total, right, seen = 0.0, 0, 0
        for a, b, same in loader:
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.float16):
                za, zb = tower(a), tower(b)
                loss, dist = criterion(za, zb, same)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            total += loss.item() * len(same)
            right += ((dist < 1.0).float() == same).sum().item()
            seen += len(same)
        print(f"epoch {epoch}  loss {total / seen:.4f}  pair acc {right / seen:.3f}  scale {scaler.get_scale():.3g}")


if __name__ == "__main__":
    main()
