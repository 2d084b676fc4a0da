"""Trains a classifier in mixed precision, then calibrates it with a second-order method."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def blobs(n, classes, dim, seed):
    centre = torch.randn(classes, dim, generator=torch.Generator().manual_seed(99))
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(classes, (n,), generator=g)
    return TensorDataset(centre[y] + 1.1 * torch.randn(n, dim, generator=g), y)


class Maxout(nn.Module):
    def __init__(self, dim, hidden, classes, pieces=3):
        super().__init__()
        self.pieces = pieces
        self.fc1 = nn.Linear(dim, hidden * pieces)
        self.fc2 = nn.Linear(hidden, hidden * pieces)
        self.out = nn.Linear(hidden, classes)

    def forward(self, x):
        for fc in (self.fc1, self.fc2):
            h = fc(x)
            x = h.view(len(h), -1, self.pieces).amax(-1)
        return self.out(x)


class Calibrator(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.log_t = nn.Parameter(torch.zeros(()))
        self.bias = nn.Parameter(torch.zeros(classes))

    def forward(self, logits):
        return logits * torch.exp(-self.log_t) + self.bias


def fit(net, loader, epochs, lr):
    opt = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, lr, epochs * len(loader))
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 14)
    for epoch in range(epochs):
        total = 0.0
        for x, y in loader:
            opt.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = F.cross_entropy(net(x), y)
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            nn.utils.clip_grad_value_(net.parameters(), 1.0)
            scaler.step(opt)
            scaler.update()
            sched.step()
            total += loss.item()
        print(f"epoch {epoch} loss {total / len(loader):.4f}")


def calibrate(net, calibrator, loader, steps):
    net.eval().requires_grad_(False)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
        pairs = [(net(x).float(), y) for x, y in loader]
    logits = torch.cat([a for a, _ in pairs])
    labels = torch.cat([b for _, b in pairs])
    opt = torch.optim.LBFGS(calibrator.parameters(), lr=0.5, max_iter=10, line_search_fn="strong_wolfe")

    def closure():
        opt.zero_grad()
        loss = F.cross_entropy(calibrator(logits), labels)
        loss.backward()
        return loss

    for step in range(steps):
        loss = opt.step(closure)
        print(f"  calibration {step} nll {loss.item():.4f} T {calibrator.log_t.exp().item():.3f}")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=6)
    ap.add_argument("--classes", type=int, default=8)
    ap.add_argument("--lr", type=float, default=0.05)
    args = ap.parse_args()
    torch.manual_seed(0)
    net = Maxout(16, 48, args.classes)
    fit(net, DataLoader(blobs(2048, args.classes, 16, 1), 64, shuffle=True), args.epochs, args.lr)
    calibrate(net, Calibrator(args.classes), DataLoader(blobs(512, args.classes, 16, 2), 128), 4)


if __name__ == "__main__":
    main()
