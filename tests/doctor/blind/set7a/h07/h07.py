"""Segmentation with activation checkpointing; IoU of an absent class is undefined and left out of the mean."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

CLASSES = 4


class Stage(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.conv = nn.Conv2d(i, o, 3, padding=1)
        self.norm = nn.GroupNorm(4, o)

    def forward(self, x):
        return F.relu(self.norm(self.conv(x)))


class Seg(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        self.s1, self.s2, self.s3 = Stage(3, c), Stage(c, c), Stage(2 * c, c)
        self.head = nn.Conv2d(c, CLASSES, 1)

    def forward(self, x):
        a = self.s1(x)
        b = checkpoint(self.s2, F.max_pool2d(a, 2), use_reentrant=False)
        b = F.interpolate(b, scale_factor=2.0)
        return self.head(checkpoint(self.s3, torch.cat([a, b], 1), use_reentrant=False))


def batch(n, gen, kinds=(1, 2, 3)):
    x = 0.2 * torch.randn(n, 3, 16, 16, generator=gen)
    y = torch.zeros(n, 16, 16, dtype=torch.long)
    for i in range(n):
        k = kinds[int(torch.randint(0, len(kinds), (1,), generator=gen))]
        r, c = torch.randint(0, 9, (2,), generator=gen).tolist()
        x[i, k - 1, r : r + 7, c : c + 7] += 1.0
        y[i, r : r + 7, c : c + 7] = k
    y[:, 0, :] = 255
    return x, y


@torch.no_grad()
def iou(model, gen):
    x, y = batch(12, gen, kinds=(1, 2))
    model.eval()
    pred = model(x).argmax(1)
    known = y != 255
    scores = torch.stack([((pred == k) & (y == k) & known).sum() / ((((pred == k) & known) | (y == k)).sum().float()) for k in range(CLASSES)])
    model.train()
    return scores


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(0)
    model = Seg()
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(45):
        x, y = batch(8, gen)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(x)
        loss = F.cross_entropy(logits.float(), y, ignore_index=255)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 11 == 0:
            s = iou(model, gen)
            print(f"step {step} loss {loss.item():.4f} iou {[round(v, 3) for v in s.tolist()]} mean {s.nanmean().item():.3f}")


main()
