"""Monocular depth with the scale-invariant log loss."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

from depth_data import RoadScenes


class DepthNet(nn.Module):
    def __init__(self, w=12):
        super().__init__()
        self.e1 = nn.Sequential(nn.Conv2d(1, w, 3, padding=1), nn.GroupNorm(4, w), nn.ReLU())
        self.e2 = nn.Sequential(nn.Conv2d(w, 2 * w, 3, stride=2, padding=1), nn.GroupNorm(4, 2 * w), nn.ReLU())
        self.up = nn.ConvTranspose2d(2 * w, w, 2, stride=2)
        self.head = nn.Conv2d(2 * w, 1, 3, padding=1)

    def forward(self, x):
        a = self.e1(x)
        b = self.up(self.e2(a))
        return self.head(torch.cat([a, b], 1))


def silog(log_pred, depth, lam=0.85):
    valid = torch.isfinite(depth)
    diff = log_pred.float()[valid] - depth[valid].log()
    return diff.pow(2).mean() - lam * diff.mean().pow(2)


@torch.no_grad()
def metrics(net, loader):
    net.eval()
    rel, delta = [], []
    for img, depth in loader:
        pred = net(img).exp()
        err = (pred - depth).abs() / depth
        rel.append(torch.nanmean(err).item())
        ratio = torch.maximum(pred / depth, depth / pred)
        ok = torch.isfinite(ratio)
        delta.append((ratio[ok] < 1.25).float().mean().item())
    net.train()
    return sum(rel) / len(rel), sum(delta) / len(delta)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=8)
    p.add_argument("--batch-size", type=int, default=8)
    p.add_argument("--lr", type=float, default=5e-3)
    args = p.parse_args()
    torch.manual_seed(0)
    train = DataLoader(RoadScenes(48, seed=0), batch_size=args.batch_size, shuffle=True)
    test = DataLoader(RoadScenes(16, seed=1), batch_size=16)
    net = DepthNet()
    opt = torch.optim.AdamW(net.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu")
    best = float("inf")
    for epoch in range(args.epochs):
        total = 0.0
        for img, depth in train:
            with torch.autocast("cpu", dtype=torch.float16):
                log_pred = net(img)
            loss = silog(log_pred, depth)
            opt.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            total += loss.item()
        rel, d1 = metrics(net, test)
        best = min(best, rel)
        print(f"epoch {epoch} silog {total / len(train):.4f} mean depth {depth.mean().item()} abs_rel {rel:.3f} d1 {d1:.3f} best {best:.3f}")


if __name__ == "__main__":
    main()
