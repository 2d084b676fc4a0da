import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

import engine


def glyphs(n, seed):
    """8x8 drawings of four strokes in noise."""
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 4, (n,), generator=g)
    x = 0.35 * torch.randn(n, 1, 8, 8, generator=g)
    at = torch.randint(1, 7, (n,), generator=g)
    for i in range(n):
        k = int(at[i])
        if y[i] == 0:
            x[i, 0, k] += 1
        elif y[i] == 1:
            x[i, 0, :, k] += 1
        elif y[i] == 2:
            x[i, 0] += torch.eye(8)
        else:
            x[i, 0] += torch.eye(8).flip(0)
    return TensorDataset(x, y)


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a, self.b = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1)

    def forward(self, x):
        return F.relu(x + self.b(F.relu(self.a(x))))


def network():
    return nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), Block(12), nn.MaxPool2d(2), Block(12),
                         nn.Flatten(), nn.Linear(12 * 16, 4))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--lr", type=float, default=0.01)
    ap.add_argument("--batch-size", type=int, default=32)
    args = ap.parse_args()
    torch.manual_seed(40)
    train = DataLoader(glyphs(1280, 1), batch_size=args.batch_size, shuffle=True, drop_last=True)
    test = DataLoader(glyphs(256, 2), batch_size=128)
    model = network()
    opt = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    sched = torch.optim.lr_scheduler.StepLR(opt, step_size=len(train), gamma=0.7)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for epoch in range(args.epochs):
        loss = engine.train_epoch(model, train, lambda o, y: F.cross_entropy(o.float(), y), opt, scaler, sched)
        acc = engine.evaluate(model, test, lambda o, y: (o.argmax(1) == y).float().mean().item())
        print(f"epoch {epoch} loss {loss:.4f} test accuracy {acc:.3f}")


if __name__ == "__main__":
    main()
