import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

from losses import SupConLoss


class TwoViewDataset(Dataset):
    """Noisy prototypes; every item is returned as two augmented views."""

    def __init__(self, n=512, n_classes=8, dim=48, noise=0.35, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.protos = torch.randn(n_classes, dim, generator=g)
        self.labels = torch.randint(0, n_classes, (n,), generator=g)
        self.base = self.protos[self.labels] + noise * torch.randn(n, dim, generator=g)

    def __len__(self):
        return len(self.labels)

    def augment(self, x):
        x = x + 0.1 * torch.randn_like(x)
        keep = (torch.rand_like(x) > 0.1).float()
        return x * keep

    def __getitem__(self, i):
        x = self.base[i]
        return self.augment(x), self.augment(x), self.labels[i]


class Encoder(nn.Module):
    def __init__(self, dim, hidden=128, out=32):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Linear(dim, hidden), nn.BatchNorm1d(hidden), nn.ReLU(inplace=True),
            nn.Linear(hidden, hidden), nn.ReLU(inplace=True),
        )
        self.proj = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(inplace=True), nn.Linear(hidden, out))

    def forward(self, x):
        return F.normalize(self.proj(self.backbone(x)), dim=1, eps=1e-4)


def train_one_epoch(model, criterion, loader, optimizer, scaler, args):
    model.train()
    total, n = 0.0, 0
    for v1, v2, y in loader:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device_type="cpu", dtype=torch.float16):
            z = model(torch.cat([v1, v2]))
            loss = criterion(z, torch.cat([y, y]))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        total += loss.item() * len(y)
        n += len(y)
    return total / n


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--batch-size", type=int, default=64)
    p.add_argument("--temperature", type=float, default=0.07)
    p.add_argument("--lr", type=float, default=0.05)
    args = p.parse_args()
    torch.manual_seed(1)

    ds = TwoViewDataset()
    loader = DataLoader(ds, batch_size=args.batch_size, shuffle=True, drop_last=True)
    model = Encoder(48)
    criterion = SupConLoss(args.temperature)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)
    scaler = torch.amp.GradScaler("cpu")
    for epoch in range(args.epochs):
        loss = train_one_epoch(model, criterion, loader, optimizer, scaler, args)
        sched.step()
        print(f"epoch {epoch} loss {loss:.4f} lr {sched.get_last_lr()[0]:.4f} scale {scaler.get_scale():.0f}")


if __name__ == "__main__":
    main()
