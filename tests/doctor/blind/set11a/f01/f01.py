"""Train a small 3D network on synthetic lesion volumes (one foreground class)."""
import argparse
import logging
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

from losses import BatchDiceLoss

logging.basicConfig(level=logging.INFO, format="%(message)s")
log = logging.getLogger("seg3d")


class LesionVolumes(Dataset):
    def __init__(self, n, size=(40, 40, 32), seed=0):
        g = torch.Generator().manual_seed(seed)
        zz, yy, xx = torch.meshgrid(*[torch.arange(s).float() for s in size], indexing="ij")
        self.items = []
        for _ in range(n):
            c = torch.rand(3, generator=g) * torch.tensor(size) * 0.5 + torch.tensor(size) * 0.25
            r = 6 + 5 * torch.rand(1, generator=g)
            mask = ((zz - c[0]) ** 2 + (yy - c[1]) ** 2 + (xx - c[2]) ** 2 < r ** 2).float()
            vol = 0.3 * torch.randn(size, generator=g) + mask
            self.items.append((vol[None], mask[None]))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class TinyUNet3d(nn.Module):
    def __init__(self, ch=6):
        super().__init__()
        self.down = nn.Sequential(nn.Conv3d(1, ch, 3, stride=2, padding=1), nn.InstanceNorm3d(ch, affine=True), nn.LeakyReLU(0.01))
        self.mid = nn.Sequential(nn.Conv3d(ch, ch, 3, padding=1), nn.InstanceNorm3d(ch, affine=True), nn.LeakyReLU(0.01))
        self.head = nn.Conv3d(ch, 1, 1)

    def forward(self, x):
        h = self.mid(self.down(x))
        return F.interpolate(self.head(h), size=x.shape[2:], mode="trilinear", align_corners=False)


def train(args):
    torch.manual_seed(args.seed)
    loader = DataLoader(LesionVolumes(16), batch_size=args.batch_size, shuffle=True, drop_last=True)
    net = TinyUNet3d()
    criterion = BatchDiceLoss()
    opt = torch.optim.Adam(net.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu")
    for epoch in range(args.epochs):
        net.train()
        t0, total = time.time(), 0.0
        for vol, mask in loader:
            opt.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.float16):
                logits = net(vol)
                loss = criterion(logits, mask)
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            gn = nn.utils.clip_grad_norm_(net.parameters(), 12.0)
            scaler.step(opt)
            scaler.update()
            total += loss.item()
        hard = (logits.detach() > 0).float()
        iou = (hard * mask).sum() / ((hard + mask) > 0).float().sum()
        log.info("epoch %d loss %.4f grad_norm %.3g scale %g iou(last) %.3f  %.1fs", epoch, total / len(loader), gn, scaler.get_scale(), iou, time.time() - t0)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=6)
    ap.add_argument("--batch-size", type=int, default=4)
    ap.add_argument("--lr", type=float, default=1e-2)
    ap.add_argument("--seed", type=int, default=0)
    train(ap.parse_args())
