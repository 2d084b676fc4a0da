import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Boxes(Dataset):
    """One bright rectangle on a noisy canvas; target is a 4x4 grid with (obj, x, y, w, h)."""

    def __init__(self, n, size=32, grid=4, seed=0):
        self.n, self.size, self.grid = n, size, grid
        self.seed = seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed * 100003 + i)
        s, cell = self.size, self.size // self.grid
        w, h = torch.randint(4, 12, (2,), generator=g).tolist()
        cx, cy = torch.randint(6, s - 6, (2,), generator=g).tolist()
        img = 0.2 * torch.randn(1, s, s, generator=g)
        img[:, max(cy - h // 2, 0):cy + h // 2, max(cx - w // 2, 0):cx + w // 2] += 1
        target = torch.zeros(5, self.grid, self.grid)
        gy, gx = cy // cell, cx // cell
        target[:, gy, gx] = torch.tensor([1.0, cx % cell, cy % cell, w, h])
        return img, target


class TinyDetector(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        layers, i = [], 1
        for o in (c, c * 2, c * 4):
            layers += [nn.Conv2d(i, o, 3, stride=2, padding=1), nn.BatchNorm2d(o), nn.LeakyReLU(0.1)]
            i = o
        self.backbone = nn.Sequential(*layers)
        self.head = nn.Conv2d(i, 5, 1)

    def forward(self, x):
        return self.head(self.backbone(x))


def yolo_loss(pred, target, box_weight=5.0, noobj_weight=0.5):
    obj = target[:, 0]
    conf = F.binary_cross_entropy_with_logits(pred[:, 0], obj, reduction="none")
    conf = (conf * torch.where(obj > 0, 1.0, noobj_weight)).sum()
    box = ((pred[:, 1:] - target[:, 1:]) ** 2 * obj[:, None]).sum()
    return conf + box_weight * box


def train_epoch(model, loader, optimizer, epoch, log_every=4):
    model.train()
    scaler = torch.amp.GradScaler("cpu")
    running = 0.0
    for i, (img, target) in enumerate(loader):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            pred = model(img)
            loss = yolo_loss(pred.float(), target)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 50.0)
        scaler.step(optimizer)
        scaler.update()
        running += loss.item() / len(img)
        if i % log_every == 0:
            print(f"  [{epoch}/{i}] loss {loss.item() / len(img):.3f}")
    return running / len(loader)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(Boxes(448), args.batch_size, shuffle=True, drop_last=True)
    model = TinyDetector()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        mean = train_epoch(model, loader, optimizer, epoch)
        print(f"epoch {epoch} mean loss {mean:.3f}")


if __name__ == "__main__":
    main()
