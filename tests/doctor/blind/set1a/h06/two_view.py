"""Two networks on the same images (depth and mask), each with its own optimizer and scaler."""
import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils import clip_grad_norm_


class ConvNet(nn.Module):
    def __init__(self, out, ch=12):
        super().__init__()
        self.f = nn.Sequential(
            nn.Conv2d(3, ch, 3, padding=1), nn.ReLU(),
            nn.Conv2d(ch, ch, 3, padding=2, dilation=2), nn.ReLU(),
            nn.Conv2d(ch, ch, 3, padding=4, dilation=4), nn.ReLU(),
            nn.Conv2d(ch, out, 1),
        )

    def forward(self, x):
        return self.f(x)


class Task:
    def __init__(self, name, net, loss, lr, max_norm, init_scale=2.0 ** 16):
        self.name, self.net, self.loss, self.max_norm = name, net, loss, max_norm
        self.opt = torch.optim.AdamW(net.parameters(), lr=lr)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=init_scale, growth_interval=25)
        self.log = []

    def step(self, img, target):
        self.opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            out = self.net(img)
        loss = self.loss(out.float(), target)
        self.scaler.scale(loss).backward()
        scale = self.scaler.get_scale()
        norm = clip_grad_norm_(self.net.parameters(), self.max_norm * scale) / scale
        self.scaler.step(self.opt)
        self.scaler.update()
        self.log.append((loss.item(), norm.item(), self.scaler.get_scale()))


def scene(n, size, g):
    yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    cy, cx = (torch.randint(6, size - 6, (n, 1, 1), generator=g) for _ in range(2))
    r = torch.randint(3, 7, (n, 1, 1), generator=g)
    z = 1 + 9 * torch.rand(n, 1, 1, generator=g)
    mask = ((yy - cy) ** 2 + (xx - cx) ** 2 < r ** 2).float()
    depth = torch.where(mask > 0, z.expand_as(mask), torch.full_like(mask, 12.0))
    img = torch.stack([mask * (1 / z), depth / 12, torch.ones_like(mask)], 1)
    return img + 0.05 * torch.randn(img.shape, generator=g), depth.unsqueeze(1), mask.unsqueeze(1)


def log_depth_loss(pred, depth):
    d = pred - depth.log()
    return d.square().mean() - 0.5 * d.mean().square()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--iters", type=int, default=45)
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--size", type=int, default=26)
    a = p.parse_args()
    torch.manual_seed(9)
    g = torch.Generator().manual_seed(9)
    depth = Task("depth", ConvNet(1), log_depth_loss, 4e-3, 1.0, init_scale=2.0 ** 20)
    mask = Task("mask", ConvNet(1), F.binary_cross_entropy_with_logits, 4e-3, 0.5)
    for it in range(a.iters):
        img, d, m = scene(a.batch, a.size, g)
        depth.step(img, d)
        mask.step(img, m)
        if it < 3 or it % 10 == 9:
            for t in (depth, mask):
                l, n, s = t.log[-1]
                print(f"{it:3d} {t.name:5s} loss {l:.4f} norm {n:.3f} scale 2^{math.log2(s):.0f}")


if __name__ == "__main__":
    main()
