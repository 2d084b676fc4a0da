"""Transfer learning: train a base classifier, then move it to new classes."""
import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader

from nets import ShapeSet, TinyResNet


def amp():
    return torch.autocast(device_type="cpu", dtype=torch.bfloat16)


def train(model, loader, optimizer, epochs, tag):
    criterion = nn.CrossEntropyLoss()
    for epoch in range(epochs):
        model.train()
        total = correct = 0
        loss_sum = 0.0
        for x, y in loader:
            optimizer.zero_grad(set_to_none=True)
            with amp():
                out = model(x)
                loss = criterion(out, y)
            loss.backward()
            optimizer.step()
            loss_sum += loss.item() * len(y)
            correct += (out.argmax(1) == y).sum().item()
            total += len(y)
        print(f"[{tag}] epoch {epoch} loss {loss_sum / total:.4f} acc {correct / total:.3f}")


def freeze(module):
    for p in module.parameters():
        p.requires_grad = False
    return module


def adapt(model, classes, args):
    freeze(model.trunk)
    optimizer = torch.optim.AdamW(model.head.parameters(), lr=args.lr_transfer)
    model.head = nn.Linear(model.head.in_features, classes)
    loader = DataLoader(ShapeSet(384, kinds=range(3, 7), seed=5), args.batch, shuffle=True)
    train(model, loader, optimizer, args.epochs_transfer, "transfer")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--epochs-transfer", type=int, default=4)
    ap.add_argument("--batch", type=int, default=32)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--lr-transfer", type=float, default=5e-3)
    args = ap.parse_args()
    torch.manual_seed(4)

    model = TinyResNet(classes=3)
    loader = DataLoader(ShapeSet(384, kinds=range(3), seed=1), args.batch, shuffle=True)
    train(model, loader, torch.optim.AdamW(model.parameters(), lr=args.lr), args.epochs, "base")
    adapt(model, 4, args)


if __name__ == "__main__":
    main()
