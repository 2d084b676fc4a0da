"""Centre-point detector: per-class heatmap head, trained on synthetic squares."""
import argparse
import random

import numpy as np
import torch
import torch.nn as nn


def seed_all(s):
    random.seed(s)
    np.random.seed(s)
    torch.manual_seed(s)


def draw_gaussian(hm, cy, cx, sigma):
    h, w = hm.shape
    yy, xx = np.ogrid[:h, :w]
    blob = np.exp(-((yy - cy) ** 2 + (xx - cx) ** 2) / (2 * sigma ** 2))
    np.maximum(hm, blob, out=hm)


def make_dataset(n, size=16):
    images, heatmaps = [], []
    for _ in range(n):
        img = np.random.randn(1, size, size).astype(np.float32) * 0.05
        hm = np.zeros((1, size, size), np.float32)
        for _ in range(random.randint(1, 2)):
            cy, cx = random.randint(2, size - 3), random.randint(2, size - 3)
            img[0, cy - 1:cy + 2, cx - 1:cx + 2] += 1.0
            img[0, cy, cx] += 1.0
            draw_gaussian(hm[0], cy, cx, sigma=0.7)
        images.append(img)
        heatmaps.append(hm)
    return torch.from_numpy(np.stack(images)), torch.from_numpy(np.stack(heatmaps))


class CenterHead(nn.Module):
    def __init__(self, ch=16):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, ch, 3, padding=1), nn.ReLU(), nn.Conv2d(ch, ch, 3, padding=1), nn.ReLU())
        self.hm = nn.Conv2d(ch, 1, 1)
        nn.init.constant_(self.hm.bias, -2.19)

    def forward(self, x):
        return self.hm(self.body(x))


class HeatmapLoss(nn.Module):
    """Penalty-reduced pixelwise logistic loss (CornerNet, without the focusing term)."""

    def __init__(self, beta=4, eps=1e-6):
        super().__init__()
        self.beta, self.eps = beta, eps

    def forward(self, logits, gt):
        pred = torch.sigmoid(logits).clamp(self.eps, 1 - self.eps)
        pos = gt.eq(1).float()
        neg = (1 - gt).pow(self.beta)
        pos_loss = torch.log(pred) * pos
        neg_loss = torch.log(1 - pred) * neg * (1 - pos)
        num_pos = pos.sum().clamp(min=1)
        return -(pos_loss.sum() + neg_loss.sum()) / num_pos


def run(args):
    seed_all(args.seed)
    images, heatmaps = make_dataset(args.images)
    model = CenterHead()
    crit = HeatmapLoss()
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu", enabled=True)
    for epoch in range(args.epochs):
        perm = torch.randperm(len(images))
        meter = []
        for idx in perm.split(args.batch):
            opt.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                out = model(images[idx])
                loss = crit(out, heatmaps[idx])
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            meter.append(loss.item())
        if epoch % 5 == 0 or epoch == args.epochs - 1:
            peak = out.detach().float().max().item()
            print(f"[{epoch:03d}] loss {np.mean(meter):.4f} max logit {peak:.2f} scale {scaler.get_scale():g}")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=50)
    p.add_argument("--images", type=int, default=32)
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--lr", type=float, default=1e-2)
    p.add_argument("--seed", type=int, default=1)
    run(p.parse_args())
