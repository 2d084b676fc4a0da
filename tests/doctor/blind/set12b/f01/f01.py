"""Binary segmentation of blobs with a small U-shaped net, mixed precision."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Blobs(Dataset):
    def __init__(self, n, size, seed):
        self.n, self.size, self.seed = n, size, seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed * 1000 + i)
        c = torch.rand(2, generator=g) * 0.4 + 0.3
        r = torch.rand(1, generator=g) * 0.15 + 0.3
        ax = torch.linspace(0, 1, self.size)
        d = ((ax[:, None] - c[0]) ** 2 + (ax[None] - c[1]) ** 2).sqrt()
        mask = (d < r).float()
        img = mask + 0.4 * torch.randn(self.size, self.size, generator=g)
        return img[None], mask[None]


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())


class MiniUNet(nn.Module):
    def __init__(self, w=4):
        super().__init__()
        self.enc = block(1, w)
        self.mid = block(w, 2 * w)
        self.dec = block(3 * w, w)
        self.out = nn.Conv2d(w, 1, 1)

    def forward(self, x):
        e = self.enc(x)
        m = self.mid(F.max_pool2d(e, 4))
        u = F.interpolate(m, scale_factor=4, mode="nearest")
        return self.out(self.dec(torch.cat([e, u], 1)))


class RegionLoss(nn.Module):
    """Soft overlap, taken over the whole batch."""

    def __init__(self, smooth=1.0):
        super().__init__()
        self.smooth = smooth

    def forward(self, logits, target):
        prob = torch.sigmoid(logits).flatten()
        target = target.to(prob.dtype).flatten()
        inter = (prob * target).sum()
        total = prob.sum() + target.sum()
        return 1 - (2 * inter + self.smooth) / (total + self.smooth)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--size", type=int, default=160)
    ap.add_argument("--batch", type=int, default=8)
    args = ap.parse_args()
    torch.manual_seed(0)
    dl = DataLoader(Blobs(16, args.size, 1), batch_size=args.batch, shuffle=True)
    net, crit = MiniUNet(), RegionLoss()
    opt = torch.optim.AdamW(net.parameters(), lr=5e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for epoch in range(args.epochs):
        for x, y in dl:
            opt.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.float16):
                loss = crit(net(x), y)
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            print(f"epoch {epoch} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
