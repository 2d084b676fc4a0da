"""Keypoint heatmap regression on synthetic hands, half precision on the CPU."""
import argparse
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

K = 4
RES = 16


def make_set(n, seed):
    rng = np.random.default_rng(seed)
    images = np.zeros((n, 1, 32, 32))
    pts = rng.uniform(5, 27, size=(n, K, 2))
    yy, xx = np.mgrid[0:32, 0:32]
    for i in range(n):
        for k in range(K):
            r2 = (xx - pts[i, k, 0]) ** 2 + (yy - pts[i, k, 1]) ** 2
            images[i, 0] += (0.4 + 0.2 * k) * np.exp(-r2 / (1.5 + k))
    images += rng.normal(0, 0.02, images.shape)
    return images, pts


def heatmaps(pts, sigma=1.2):
    grid = torch.arange(RES, dtype=pts.dtype)
    p = pts / 2.0
    gx = torch.exp(-((grid[None, None] - p[..., 0:1]) ** 2) / (2 * sigma ** 2))
    gy = torch.exp(-((grid[None, None] - p[..., 1:2]) ** 2) / (2 * sigma ** 2))
    return gy.unsqueeze(-1) * gx.unsqueeze(-2)


class PoseNet(nn.Module):
    def __init__(self, ch=16):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, ch, 3, 2, 1), nn.BatchNorm2d(ch), nn.ReLU())
        self.body = nn.Sequential(
            nn.Conv2d(ch, ch, 5, 1, 2), nn.BatchNorm2d(ch), nn.ReLU(),
            nn.Conv2d(ch, ch, 5, 1, 2), nn.BatchNorm2d(ch), nn.ReLU())
        self.head = nn.Conv2d(ch, K, 1)

    def forward(self, x):
        x = self.stem(x)
        return self.head(x + self.body(x))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--bs", type=int, default=16)
    args = ap.parse_args()
    torch.manual_seed(0)

    images, pts = make_set(96, 1)
    images = torch.from_numpy(images)
    pts = torch.from_numpy(pts)
    model = PoseNet().double()
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.steps)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 10)

    for step in range(args.steps):
        idx = torch.randint(0, len(images), (args.bs,))
        target = heatmaps(pts[idx])
        with torch.autocast("cpu", dtype=torch.float16):
            out = model(images[idx])
            loss = F.mse_loss(out, target.to(out.dtype)) * 10
        opt.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        sched.step()
        if step % 10 == 0:
            mb = out.element_size() * out.nelement() / 1024
            print(f"step {step:3d} loss {loss.item():.4f} out {out.dtype} {mb:.1f} KiB")

    model.eval()
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
        hm = model(images).flatten(2).argmax(-1)
    found = torch.stack([hm % RES, torch.div(hm, RES, rounding_mode="floor")], -1) * 2.0
    print("mean error in pixels", (found - pts).norm(dim=-1).mean().item(), out.dtype)


if __name__ == "__main__":
    main()
