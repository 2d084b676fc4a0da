"""Two-moons style classification with a flat minimum."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

from sam import SAM


def spirals(n, arms, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(arms, (n,), generator=g)
    r = torch.rand(n, generator=g) * 2 + 0.2
    a = r * 2.0 + y * (6.2832 / arms)
    x = torch.stack([r * a.cos(), r * a.sin()], -1) + 0.05 * torch.randn(n, 2, generator=g)
    return x, y


class Net(nn.Module):
    def __init__(self, hidden, arms, dropout):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, hidden), nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)])
        self.norms = nn.ModuleList([nn.LayerNorm(hidden) for _ in range(3)])
        self.out = nn.Linear(hidden, arms)
        self.dropout = dropout

    def forward(self, x):
        for fc, ln in zip(self.layers, self.norms):
            x = F.dropout(F.gelu(ln(fc(x))), self.dropout, self.training)
        return self.out(x)


class Engine:
    def __init__(self, args):
        self.net = Net(args.hidden, args.arms, args.dropout)
        self.opt = SAM(self.net.parameters(), torch.optim.SGD, rho=args.rho, lr=args.lr, momentum=0.9)
        self.scaler = torch.amp.GradScaler("cpu")
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt.base, args.epochs)

    def forward_loss(self, x, y):
        with torch.autocast("cpu", dtype=torch.float16):
            return F.cross_entropy(self.net(x), y)

    def step(self, x, y):
        loss = self.forward_loss(x, y)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.opt)
        self.opt.ascend()
        self.scaler.scale(self.forward_loss(x, y)).backward()
        self.opt.descend()
        self.scaler.update()
        return loss.item()

    def epoch(self, loader):
        self.net.train()
        losses = [self.step(x, y) for x, y in loader]
        self.sched.step()
        return sum(losses) / len(losses)

    @torch.no_grad()
    def score(self, x, y):
        self.net.eval()
        return (self.net(x).argmax(-1) == y).float().mean().item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=8)
    p.add_argument("--arms", type=int, default=3)
    p.add_argument("--hidden", type=int, default=64)
    p.add_argument("--dropout", type=float, default=0.05)
    p.add_argument("--rho", type=float, default=0.02)
    p.add_argument("--lr", type=float, default=0.05)
    args = p.parse_args()
    torch.manual_seed(2)
    engine = Engine(args)
    loader = DataLoader(TensorDataset(*spirals(1536, args.arms, 1)), 64, shuffle=True)
    test = spirals(512, args.arms, 9)
    for e in range(args.epochs):
        loss = engine.epoch(loader)
        print(f"epoch {e} loss {loss:.4f} test {engine.score(*test):.3f}")


if __name__ == "__main__":
    main()
