import argparse
import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

from data import StereoScenes


class HourglassNet(nn.Module):
    def __init__(self, ch=24):
        super().__init__()
        self.d1 = self.block(2, ch, 2)
        self.d2 = self.block(ch, 2 * ch, 2)
        self.mid = self.block(2 * ch, 2 * ch, 1)
        self.u1 = self.block(3 * ch, ch, 1)
        self.out = nn.Conv2d(ch + 2, 1, 3, padding=1)

    @staticmethod
    def block(i, o, s):
        return nn.Sequential(nn.Conv2d(i, o, 3, s, 1), nn.GroupNorm(4, o), nn.GELU())

    def forward(self, x):
        a = self.d1(x)
        b = self.mid(self.d2(a))
        b = F.interpolate(b, scale_factor=2, mode="nearest")
        c = self.u1(torch.cat([a, b], 1))
        c = F.interpolate(c, scale_factor=2, mode="nearest")
        return self.out(torch.cat([c, x], 1))


def train_one_epoch(model, loader, opt, scaler, epoch, args):
    model.train()
    for it, (pair, disp, valid) in enumerate(loader):
        with torch.autocast("cpu", dtype=torch.float16):
            pred = model(pair)
        loss = F.smooth_l1_loss(pred.float()[valid], disp[valid])
        loss_value = loss.item()
        if not math.isfinite(loss_value):
            print("Loss is {}, stopping training".format(loss_value))
            sys.exit(1)
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        if it % args.print_freq == 0:
            epe = (pred - disp)[valid].abs().mean().item()
            print(f"epoch {epoch} [{it}/{len(loader)}] loss {loss_value:.4f} epe {epe:.3f}")


def main():
    p = argparse.ArgumentParser("stereo")
    p.add_argument("--epochs", default=3, type=int)
    p.add_argument("--batch-size", default=8, type=int)
    p.add_argument("--lr", default=2e-3, type=float)
    p.add_argument("--print-freq", default=2, type=int)
    args = p.parse_args()

    torch.manual_seed(42)
    loader = DataLoader(StereoScenes(96), batch_size=args.batch_size, shuffle=True, drop_last=True)
    model = HourglassNet()
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
    for epoch in range(args.epochs):
        train_one_epoch(model, loader, opt, scaler, epoch, args)


if __name__ == "__main__":
    main()
