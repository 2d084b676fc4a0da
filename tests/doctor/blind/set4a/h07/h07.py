"""Segmentation of blobs; per-class IoU is NaN for classes absent from a validation picture (nanmean)."""
from dataclasses import dataclass, field

import torch
import torch.nn as nn
import torch.nn.functional as F


def picture(g, size=24, classes=4):
    img = 0.1 * torch.randn(3, size, size, generator=g)
    lab = torch.zeros(size, size, dtype=torch.long)
    colours = torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 0, 1]])
    for c in range(1, classes):
        if torch.rand(1, generator=g) < 0.45:
            y, x = torch.randint(0, size - 8, (2,), generator=g).tolist()
            lab[y : y + 8, x : x + 8] = c
            img[:, y : y + 8, x : x + 8] += colours[c - 1][:, None, None]
    lab[0] = 255
    return img, lab


def make(n, seed):
    g = torch.Generator().manual_seed(seed)
    items = [picture(g) for _ in range(n)]
    return torch.stack([i for i, _ in items]), torch.stack([l for _, l in items])


class TinyUNet(nn.Module):
    def __init__(self, classes=4, w=12):
        super().__init__()
        self.a = nn.Sequential(nn.Conv2d(3, w, 3, padding=1), nn.BatchNorm2d(w), nn.ReLU())
        self.b = nn.Sequential(nn.Conv2d(w, 2 * w, 3, stride=2, padding=1), nn.BatchNorm2d(2 * w), nn.ReLU())
        self.up = nn.ConvTranspose2d(2 * w, w, 2, stride=2)
        self.out = nn.Conv2d(2 * w, classes, 1)

    def forward(self, x):
        a = self.a(x)
        return self.out(torch.cat([a, self.up(self.b(a))], 1))


def soft_dice(logits, target, ignore=255):
    valid = target != ignore
    p = logits.float().softmax(1) * valid[:, None]
    t = F.one_hot(target.masked_fill(~valid, 0), logits.shape[1]).movedim(-1, 1) * valid[:, None]
    inter, total = (p * t).sum((2, 3)), (p + t).sum((2, 3))
    return 1 - ((2 * inter + 1) / (total + 1)).mean()


@dataclass
class IoU:
    classes: int
    rows: list = field(default_factory=list)

    def add(self, pred, target):
        for p, t in zip(pred, target):
            ok = t != 255
            row = []
            for c in range(self.classes):
                i = ((p == c) & (t == c) & ok).sum().float()
                u = (((p == c) | (t == c)) & ok).sum().float()
                row.append(i / u)
            self.rows.append(torch.stack(row))

    def mean(self):
        return torch.nanmean(torch.stack(self.rows), 0)


def main():
    torch.manual_seed(0)
    x, y = make(96, 0)
    vx, vy = make(16, 1)
    model = TinyUNet()
    opt = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for epoch in range(5):
        model.train()
        for idx in torch.randperm(len(x)).split(12):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                logits = model(x[idx])
                loss = F.cross_entropy(logits, y[idx], ignore_index=255) + soft_dice(logits, y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
        model.eval()
        iou = IoU(4)
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            iou.add(model(vx).argmax(1), vy)
        print(f"epoch {epoch} loss {loss.item():.4f} IoU {[round(v, 3) for v in iou.mean().tolist()]}")


if __name__ == "__main__":
    main()
