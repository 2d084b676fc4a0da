"""Binary segmentation of blobs (made-up microscopy tiles) with a soft Dice loss."""
import argparse
import torch
import torch.nn as nn
import torch.nn.functional as F


def make_tiles(n, size, seed):
    g = torch.Generator().manual_seed(seed)
    yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    imgs, masks = [], []
    for _ in range(n):
        m = torch.zeros(size, size, dtype=torch.bool)
        for _ in range(6):
            cy, cx = torch.randint(0, size, (2,), generator=g).tolist()
            r = int(torch.randint(size // 8, size // 4, (1,), generator=g))
            m |= (yy - cy) ** 2 + (xx - cx) ** 2 < r * r
        noise = torch.randn(size, size, generator=g) * 0.3
        imgs.append((m.float() * 0.8 + noise)[None])
        masks.append(m.float()[None])
    return torch.stack(imgs), torch.stack(masks)


class Block(nn.Sequential):
    def __init__(self, cin, cout):
        super().__init__(
            nn.Conv2d(cin, cout, 3, padding=1, bias=False),
            nn.BatchNorm2d(cout),
            nn.ReLU(inplace=True),
        )


class TinyUNet(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.stem = nn.Conv2d(1, width, 4, stride=4)
        self.enc = Block(width, width)
        self.down = Block(width, width * 2)
        self.mid = Block(width * 2, width * 2)
        self.up = Block(width * 3, width)
        self.out = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        s = self.enc(self.stem(x))
        m = self.mid(self.down(F.max_pool2d(s, 2)))
        m = F.interpolate(m, scale_factor=2, mode="nearest")
        y = self.out(self.up(torch.cat([s, m], dim=1)))
        return F.interpolate(y, scale_factor=4, mode="nearest")


class SoftDice(nn.Module):
    def __init__(self, smooth=1.0):
        super().__init__()
        self.smooth = smooth

    def forward(self, logits, target):
        prob = torch.sigmoid(logits)
        inter = (prob * target).sum()
        total = prob.sum() + target.sum()
        dice = (2.0 * inter + self.smooth) / (total + self.smooth)
        return 1.0 - dice


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--size", type=int, default=256)
    ap.add_argument("--batch-size", type=int, default=4)
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--fp32", action="store_true")
    args = ap.parse_args()

    torch.manual_seed(3)
    x, y = make_tiles(16, args.size, seed=1)
    net = TinyUNet()
    opt = torch.optim.AdamW(net.parameters(), lr=args.lr, weight_decay=0.0)
    amp = not args.fp32
    scaler = torch.amp.GradScaler("cpu", enabled=amp)
    criterion = SoftDice()

    for epoch in range(args.epochs):
        order = torch.randperm(len(x))
        running = 0.0
        steps = 0
        for i in range(0, len(x), args.batch_size):
            idx = order[i:i + args.batch_size]
            opt.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.float16, enabled=amp):
                logits = net(x[idx])
                loss = criterion(logits, y[idx])
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            running += loss.item()
            steps += 1
        print(f"epoch {epoch}: dice loss {running / steps:.4f}")


if __name__ == "__main__":
    main()
