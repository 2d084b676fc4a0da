"""Single-stage detector head on a grid (one box per cell), summed loss."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Boxes(Dataset):
    def __init__(self, n, size=32, cells=4, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.images = torch.zeros(n, 1, size, size)
        self.targets = torch.zeros(n, 5, cells, cells)
        step = size // cells
        for i in range(n):
            for _ in range(2):
                w, h = torch.randint(5, 12, (2,), generator=g).tolist()
                x = torch.randint(0, size - w, (1,), generator=g).item()
                y = torch.randint(0, size - h, (1,), generator=g).item()
                self.images[i, 0, y:y + h, x:x + w] += 1.0
                cx, cy = x + w / 2, y + h / 2
                c, r = int(cx // step), int(cy // step)
                self.targets[i, :, r, c] = torch.tensor([1.0, cx - c * step, cy - r * step, w, h])
        self.images += 0.1 * torch.randn(self.images.shape, generator=g)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i], self.targets[i]


class Detector(nn.Module):
    def __init__(self, ch=16):
        super().__init__()
        def down(a, b):
            return nn.Sequential(nn.Conv2d(a, b, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU())
        self.net = nn.Sequential(down(1, ch), down(ch, 2 * ch), down(2 * ch, 4 * ch), nn.Conv2d(4 * ch, 5, 1))

    def forward(self, x):
        return self.net(x)


def detection_loss(out, target):
    out = out.float()
    has = target[:, 0]
    obj = F.binary_cross_entropy_with_logits(out[:, 0], has, reduction="sum")
    box = ((out[:, 1:] - target[:, 1:]).pow(2).sum(1) * has).sum()
    return 5.0 * obj + box


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=6)
    ap.add_argument("--batch", type=int, default=32)
    ap.add_argument("--lr", type=float, default=3e-3)
    args = ap.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(Boxes(384), args.batch, shuffle=True)
    model = Detector()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, args.lr * 3, total_steps=args.epochs * len(loader))
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 20, growth_interval=40)
    kept = 0
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for x, target in loader:
            opt.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.float16):
                out = model(x)
                loss = detection_loss(out, target)
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            nn.utils.clip_grad_norm_(model.parameters(), 2000.0)
            before = scaler.get_scale()
            scaler.step(opt)
            scaler.update()
            if scaler.get_scale() >= before:
                sched.step()
                kept += 1
            total += loss.item()
        print(f"epoch {epoch} loss {total / len(loader):.1f} scale {scaler.get_scale():g} steps {kept}")


if __name__ == "__main__":
    main()
