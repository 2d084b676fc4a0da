"""Crowd density maps: the integral of the map is the number of people."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

from common import Throughput, prepare


class Crowds(Dataset):
    def __init__(self, n, size=32, seed=0, gain=100.0):
        g = torch.Generator().manual_seed(seed)
        self.img, self.map = [], []
        axis = torch.arange(size).float()
        for _ in range(n):
            k = int(torch.randint(3, 15, (1,), generator=g))
            pos = torch.rand(k, 2, generator=g) * size
            d = (axis[None, :, None] - pos[:, 0, None, None]) ** 2 + (axis[None, None, :] - pos[:, 1, None, None]) ** 2
            blob = torch.exp(-d / 4.5)
            density = (blob / blob.sum((1, 2), keepdim=True)).sum(0)
            image = blob.amax(0)[None].repeat(3, 1, 1) + 0.1 * torch.randn(3, size, size, generator=g)
            self.img.append(image)
            self.map.append(density[None] * gain)

    def __len__(self):
        return len(self.img)

    def __getitem__(self, i):
        return self.img[i], self.map[i]


class CountNet(nn.Module):
    def __init__(self, ch=12):
        super().__init__()
        self.enc1 = nn.Conv2d(3, ch, 3, padding=1)
        self.enc2 = nn.Conv2d(ch, ch * 2, 3, stride=2, padding=1)
        self.mid = nn.Conv2d(ch * 2, ch * 2, 3, padding=2, dilation=2)
        self.up = nn.ConvTranspose2d(ch * 2, ch, 2, stride=2)
        self.out = nn.Conv2d(ch * 2, 1, 1)

    def forward(self, x):
        a = F.relu(self.enc1(x))
        b = F.relu(self.enc2(a))
        b = F.relu(self.mid(b))
        return self.out(torch.cat([a, F.relu(self.up(b))], 1))


def train_epoch(net, loader, opt, scaler):
    net.train()
    stat = Throughput()
    for img, target in loader:
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.mse_loss(net(img), target, reduction="sum")
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(net.parameters(), 10.0)
        scaler.step(opt)
        scaler.update()
        stat.update(loss.item(), len(img))
    return stat.mean()


@torch.no_grad()
def count_error(net, loader, gain):
    net.eval()
    err, n = 0.0, 0
    for img, target in loader:
        with torch.autocast("cpu", dtype=torch.float16):
            pred = net(img)
        err += (pred.float().sum((1, 2, 3)) - target.sum((1, 2, 3))).abs().sum().item() / gain
        n += len(img)
    return err / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=6)
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--gain", type=float, default=100.0)
    args = ap.parse_args()
    torch.manual_seed(8)
    train = DataLoader(Crowds(320, seed=1, gain=args.gain), args.batch, shuffle=True)
    val = DataLoader(Crowds(64, seed=2, gain=args.gain), 32)
    net = prepare(CountNet())
    opt = torch.optim.Adam(net.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu")
    for epoch in range(args.epochs):
        loss = train_epoch(net, train, opt, scaler)
        print(f"epoch {epoch} loss/img {loss:.1f} count mae {count_error(net, val, args.gain):.2f} scale {scaler.get_scale():.0f}")


if __name__ == "__main__":
    main()
