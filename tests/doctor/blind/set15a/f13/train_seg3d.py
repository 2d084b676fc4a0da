"""Patch transformer for organ segmentation in small CT volumes; static loss scale from the command line."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--batch-size", type=int, default=4)
    p.add_argument("--loss-scale", type=float, default=0, help="static loss scale, 0: dynamic")
    p.add_argument("--seed", type=int, default=0)
    return p.parse_args()


class PatchSegmenter(nn.Module):
    def __init__(self, n_classes=3, patch=4, dim=64, depth=2, grid=4):
        super().__init__()
        self.patch, self.grid, self.n_classes = patch, grid, n_classes
        self.embed = nn.Linear(patch ** 3, dim)
        self.pos = nn.Parameter(torch.randn(1, grid ** 3, dim) * 0.02)
        layer = lambda: nn.TransformerEncoderLayer(dim, 4, 2 * dim, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.ModuleList(layer() for _ in range(depth))
        self.out = nn.Linear(dim, n_classes * patch ** 3)

    def forward(self, x):
        b, g, p = x.shape[0], self.grid, self.patch
        t = x.view(b, g, p, g, p, g, p).permute(0, 1, 3, 5, 2, 4, 6).reshape(b, g ** 3, p ** 3)
        t = self.embed(t) + self.pos
        for blk in self.blocks:
            t = blk(t)
        y = self.out(t).view(b, g, g, g, self.n_classes, p, p, p)
        return y.permute(0, 4, 1, 5, 2, 6, 3, 7).reshape(b, self.n_classes, g * p, g * p, g * p)


def dice_loss(logits, target, smooth=1.0):
    prob = logits.float().softmax(1)
    hot = F.one_hot(target, prob.shape[1]).permute(0, 4, 1, 2, 3).float()
    inter = (prob * hot).sum((2, 3, 4))
    total = prob.sum((2, 3, 4)) + hot.sum((2, 3, 4))
    return 1 - ((2 * inter + smooth) / (total + smooth)).mean()


def volumes(n, size=16):
    vol = torch.randn(n, size, size, size) * 0.3
    lab = torch.zeros(n, size, size, size, dtype=torch.long)
    ax = torch.arange(size)
    zz, yy, xx = torch.meshgrid(ax, ax, ax, indexing="ij")
    for i in range(n):
        for c, r in ((1, 5), (2, 3)):
            cz, cy, cx = torch.randint(r, size - r, (3,)).tolist()
            inside = (zz - cz) ** 2 + (yy - cy) ** 2 + (xx - cx) ** 2 < r * r
            vol[i][inside] += 1.0 * c
            lab[i][inside] = c
    return vol, lab


def main():
    args = get_args()
    torch.manual_seed(args.seed)
    vols, labels = volumes(48)
    model = PatchSegmenter()
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=args.loss_scale or 2.0 ** 16)

    for epoch in range(args.epochs):
        seen, total = 0, 0.0
        for idx in torch.randperm(len(vols)).split(args.batch_size):
            with torch.autocast("cpu", dtype=torch.float16):
                logits = model(vols[idx])
                loss = dice_loss(logits, labels[idx]) + F.cross_entropy(logits, labels[idx])
            opt.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update(args.loss_scale if args.loss_scale else None)
            total += loss.item()
            seen += 1
        print(f"epoch {epoch}  train loss {total / seen:.4f}  loss scale {scaler.get_scale():g}")


if __name__ == "__main__":
    main()
