"""Train a new segmentation head on top of a frozen self-supervised encoder."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class ConvEncoder(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.stages = nn.ModuleList([
            nn.Sequential(nn.Conv2d(3, dim, 3, 2, 1), nn.GroupNorm(8, dim), nn.GELU()),
            nn.Sequential(nn.Conv2d(dim, 2 * dim, 3, 2, 1), nn.GroupNorm(8, 2 * dim), nn.GELU()),
        ])

    def forward(self, x):
        outs = []
        for s in self.stages:
            x = s(x)
            outs.append(x)
        return outs


class SegModel(nn.Module):
    def __init__(self, num_classes=21, dim=16):
        super().__init__()
        self.encoder = ConvEncoder(dim)
        self.head = nn.Conv2d(3 * dim, num_classes, 1)

    def forward(self, x):
        a, b = self.encoder(x)
        b = F.interpolate(b, size=a.shape[-2:], mode="bilinear", align_corners=False)
        y = self.head(torch.cat([a, b], 1))
        return F.interpolate(y, size=x.shape[-2:], mode="bilinear", align_corners=False)


def build(args):
    model = SegModel()
    model.encoder.requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    return model, optimizer


def adapt_head(model, num_classes):
    """our data set has fewer classes than the released model"""
    old = model.head
    model.head = nn.Sequential(
        nn.Conv2d(old.in_channels, 24, 3, padding=1), nn.ReLU(),
        nn.Conv2d(24, num_classes, 1),
    )
    return model


def batch(n=6, size=40):
    imgs = torch.rand(n, 3, size, size) * 0.3
    target = torch.zeros(n, size, size, dtype=torch.long)
    for i in range(n):
        for c in (1, 2):
            y, x = torch.randint(0, size - 12, (2,)).tolist()
            imgs[i, c, y:y + 12, x:x + 12] += 0.7
            target[i, y:y + 12, x:x + 12] = c
    target[:, :1] = 255
    return imgs, target


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--lr", type=float, default=0.05)
    ap.add_argument("--classes", type=int, default=21)
    ap.add_argument("--iters", type=int, default=40)
    args = ap.parse_args()
    torch.manual_seed(0)

    model, optimizer = build(args)
    if args.classes != 21:
        model = adapt_head(model, args.classes)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 10)
    n_train = sum(p.numel() for p in model.parameters() if p.requires_grad)
    print(f"trainable parameters: {n_train}")

    for it in range(args.iters):
        imgs, target = batch()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            out = model(imgs)
            loss = F.cross_entropy(out, target, ignore_index=255)
        print(f"iter {it} loss {loss.item():.4f}")
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


if __name__ == "__main__":
    main()
