"""Pointer network that sorts numbers: visited positions are closed with -inf."""
import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

from pointer import PointerNet


class Lists(Dataset):
    """Lists of different lengths, padded with zeros."""

    def __init__(self, n, longest, seed):
        g = torch.Generator().manual_seed(seed)
        self.length = torch.randint(3, longest + 1, (n,), generator=g)
        self.values = torch.rand(n, longest, generator=g)
        self.open = torch.arange(longest) < self.length[:, None]
        self.values = self.values * self.open
        self.order = self.values.masked_fill(~self.open, float("inf")).argsort(1)
        self.order = self.order.masked_fill(~self.open, -100)

    def __len__(self):
        return len(self.values)

    def __getitem__(self, i):
        return self.values[i], self.open[i], self.order[i]


def evaluate(model, loader):
    model.eval()
    good = total = 0
    with torch.no_grad():
        for values, opened, order in loader:
            with torch.autocast("cpu", dtype=torch.float16):
                logits = model(values, opened, order)
            pred = logits.argmax(-1)
            used = order >= 0
            good += (pred == order)[used].sum().item()
            total += used.sum().item()
    return good / total


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=6)
    ap.add_argument("--longest", type=int, default=7)
    ap.add_argument("--batch", type=int, default=32)
    ap.add_argument("--lr", type=float, default=2e-3)
    args = ap.parse_args()
    torch.manual_seed(1)
    train = DataLoader(Lists(768, args.longest, 1), args.batch, shuffle=True)
    test = DataLoader(Lists(192, args.longest, 2), args.batch)
    model = PointerNet(32)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu")
    criterion = nn.CrossEntropyLoss(ignore_index=-100)
    best = float("-inf")
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for values, opened, order in train:
            opt.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.float16):
                logits = model(values, opened, order)
            loss = criterion(logits.float().flatten(0, 1), order.flatten())
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(opt)
            scaler.update()
            total += loss.item()
        acc = evaluate(model, test)
        best = max(best, acc)
        print(f"epoch {epoch} loss {total / len(train):.4f} acc {acc:.3f} best {best:.3f}")


if __name__ == "__main__":
    main()
