import argparse
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def blobs(n, n_classes, dim=24, seed=0):
    centers = torch.randn(n_classes, dim, generator=torch.Generator().manual_seed(99))
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, n_classes, (n,), generator=g)
    return TensorDataset(centers[y] + 0.9 * torch.randn(n, dim, generator=g), y)


class Net(nn.Module):
    def __init__(self, dim=24, hidden=64, n_classes=10):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Linear(dim, hidden), nn.GELU(), nn.LayerNorm(hidden),
            nn.Linear(hidden, hidden), nn.GELU(), nn.LayerNorm(hidden),
        )
        self.head = nn.Linear(hidden, n_classes)

    def forward(self, x):
        return self.head(self.backbone(x))


def get_optimizer(model, lr, wd=0.0):
    params = [p for p in model.parameters() if p.requires_grad]
    print(f"optimising {sum(p.numel() for p in params)} parameters")
    return torch.optim.AdamW(params, lr=lr, weight_decay=wd)


def fit(model, loader, optimizer, epochs, tag):
    sched = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=optimizer.param_groups[0]["lr"], total_steps=epochs * len(loader))
    for epoch in range(epochs):
        total = hits = n = 0
        for x, y in loader:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                logits = model(x)
                loss = F.cross_entropy(logits, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            sched.step()
            total += loss.item() * len(y)
            hits += (logits.argmax(1) == y).sum().item()
            n += len(y)
        print(f"{tag} epoch {epoch} loss {total / n:.4f} acc {hits / n:.3f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pre-epochs", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--lr", type=float, default=5e-3)
    args = parser.parse_args()
    torch.manual_seed(0)

    model = Net()
    pre = DataLoader(blobs(1000, 10), batch_size=50, shuffle=True)
    fit(model, pre, get_optimizer(model, args.lr), args.pre_epochs, "pretrain")

    student = copy.deepcopy(model)
    for p in student.backbone.parameters():
        p.requires_grad_(False)
    optimizer = get_optimizer(student, args.lr)
    student.head = nn.Linear(student.head.in_features, 5)
    small = DataLoader(blobs(300, 5, seed=5), batch_size=30, shuffle=True)
    fit(student, small, optimizer, args.epochs, "transfer")


if __name__ == "__main__":
    main()
