import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

from data import Shapes
from engine import Engine


class UNetSmall(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.d1 = self.block(1, width)
        self.d2 = self.block(width, width * 2)
        self.u1 = self.block(width * 3, width)
        self.out = nn.Conv2d(width, 1, 1)

    @staticmethod
    def block(i, o):
        return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(4, o), nn.ReLU())

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        b = F.interpolate(b, scale_factor=2, mode="nearest")
        return self.out(self.u1(torch.cat([a, b], 1)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=0.2)
    parser.add_argument("--accum", type=int, default=2)
    parser.add_argument("--max-norm", type=float, default=1.0)
    args = parser.parse_args()
    torch.manual_seed(0)
    train = DataLoader(Shapes(256), args.batch_size, shuffle=True)
    val = DataLoader(Shapes(64, seed=1), 32)
    model = UNetSmall()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, nesterov=True)
    engine = Engine(model, optimizer, accum=args.accum, max_norm=args.max_norm)
    for epoch in range(args.epochs):
        loss = engine.train(train)
        iou = engine.evaluate(val)
        print(f"epoch {epoch}: loss {loss:.4f} iou {iou:.3f}")


if __name__ == "__main__":
    main()
