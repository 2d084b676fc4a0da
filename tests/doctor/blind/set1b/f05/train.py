import argparse

import torch
from torch.utils.data import DataLoader, Dataset

from losses import SegmentationLoss
from unet import UNet


class Blobs(Dataset):
    def __init__(self, n, size=24, seed=0):
        gen = torch.Generator().manual_seed(seed)
        ys, xs = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
        self.images, self.masks = [], []
        for _ in range(n):
            c = 5 + (size - 10) * torch.rand(2, generator=gen)
            r = 3 + 4 * torch.rand(1, generator=gen)
            mask = (((ys - c[0]) ** 2 + (xs - c[1]) ** 2) < r * r).float()
            self.images.append((mask + 0.1 * torch.randn(size, size, generator=gen)).unsqueeze(0))
            self.masks.append(mask.unsqueeze(0))

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i], self.masks[i]


def dice_score(logits, masks):
    p = (logits > 0).float()
    return (2 * (p * masks).sum() / (p.sum() + masks.sum() + 1e-6)).item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=12)
    ap.add_argument("--lr", type=float, default=0.02)
    args = ap.parse_args()
    torch.manual_seed(7)
    loader = DataLoader(Blobs(64), batch_size=16, shuffle=True, num_workers=0,
                        generator=torch.Generator().manual_seed(7))
    net = UNet()
    criterion = SegmentationLoss()
    opt = torch.optim.Adam(net.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu")
    for epoch in range(args.epochs):
        net.train()
        running, score = 0.0, 0.0
        for images, masks in loader:
            opt.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.float16):
                logits = net(images)
                loss = criterion(logits, masks)
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            running += loss.item()
            score += dice_score(logits, masks)
        print(f"epoch {epoch + 1}/{args.epochs} loss {running / len(loader):.4f} dice {score / len(loader):.4f}")


if __name__ == "__main__":
    main()
