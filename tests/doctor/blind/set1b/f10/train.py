import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

from engine import Engine


def build_model(classes):
    return nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.AdaptiveAvgPool2d(2),
        nn.Flatten(), nn.Linear(96, classes),
    )


def gratings(n, classes, seed, size=16):
    gen = torch.Generator().manual_seed(seed)
    y = torch.randint(0, classes, (n,), generator=gen)
    yy, xx = torch.meshgrid(torch.arange(size).float(), torch.arange(size).float(), indexing="ij")
    ang = (y.float() * 3.1416 / classes).view(-1, 1, 1)
    ph = 6.28 * torch.rand(n, 1, 1, generator=gen)
    img = torch.sin(0.9 * (xx * ang.cos() + yy * ang.sin()) + ph)
    img = img + 0.3 * torch.randn(n, size, size, generator=gen)
    return TensorDataset(img.unsqueeze(1), y)


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=5)
    p.add_argument("--lr", type=float, default=0.1)
    p.add_argument("--momentum", type=float, default=0.9)
    p.add_argument("--max-norm", type=float, default=2.0)
    p.add_argument("--amp", action="store_true")
    return p.parse_args()


def main():
    args = get_args()
    torch.manual_seed(0)
    train = DataLoader(gratings(768, 6, 1), batch_size=64, shuffle=True, generator=torch.Generator().manual_seed(0))
    val = DataLoader(gratings(192, 6, 2), batch_size=96)
    model = build_model(6)
    opt = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=args.momentum, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs)
    engine = Engine(model, opt, nn.CrossEntropyLoss(label_smoothing=0.05), args)
    for epoch in range(args.epochs):
        loss = engine.train_epoch(train)
        acc = engine.validate(val)
        sched.step()
        print(f"epoch {epoch} train loss {loss:.4f} val acc {acc:.3f}")


if __name__ == "__main__":
    main()
