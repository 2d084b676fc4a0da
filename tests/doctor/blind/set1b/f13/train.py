import argparse
import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F


class Backbone(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, dim, 3, 2, 1), nn.GroupNorm(4, dim), nn.ReLU())
        self.stage1 = nn.Sequential(nn.Conv2d(dim, dim, 3, 1, 1), nn.GroupNorm(4, dim), nn.ReLU())
        self.stage2 = nn.Sequential(nn.Conv2d(dim, 2 * dim, 3, 2, 1), nn.GroupNorm(4, 2 * dim), nn.ReLU())

    def forward(self, x):
        return self.stage2(self.stage1(self.stem(x))).mean((2, 3))


class FineTuned(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.backbone = Backbone()
        self.head = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, classes))

    def forward(self, x):
        return self.head(self.backbone(x))


def set_trainable(module, flag):
    for p in module.parameters():
        p.requires_grad_(flag)


class Schedule:
    """Which part is trained when: all, then only the head for the last epochs."""

    def __init__(self, model, freeze_from):
        self.model, self.freeze_from = model, freeze_from

    def start_epoch(self, epoch):
        set_trainable(self.model.backbone, epoch < self.freeze_from)


def colour_batches(n, size, gen):
    for _ in range(n):
        y = torch.randint(0, 5, (size,), generator=gen)
        base = torch.eye(5)[y][:, :3] + 0.5 * torch.eye(5)[y][:, 2:]
        x = base[:, :, None, None] + 0.5 * torch.randn(size, 3, 16, 16, generator=gen)
        yield x, y


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=5)
    ap.add_argument("--iters", type=int, default=10)
    ap.add_argument("--freeze-from", type=int, default=3)
    args = ap.parse_args()
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(0)

    donor = Backbone()
    path = os.path.join(tempfile.mkdtemp(), "pretrained.pth")
    torch.save({"model": donor.state_dict(), "epoch": 90}, path)
    model = FineTuned(5)
    model.backbone.load_state_dict(torch.load(path)["model"])

    opt_body = torch.optim.SGD(model.backbone.parameters(), lr=0.01, momentum=0.9)
    opt_head = torch.optim.AdamW(model.head.parameters(), lr=2e-3)
    optimizers = [opt_body, opt_head]
    scaler = torch.amp.GradScaler("cpu")
    schedule = Schedule(model, args.freeze_from)
    for epoch in range(args.epochs):
        schedule.start_epoch(epoch)
        total = 0.0
        for x, y in colour_batches(args.iters, 32, gen):
            for opt in optimizers:
                opt.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = F.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            for opt in optimizers:
                scaler.step(opt)
            scaler.update()
            total += loss.item()
        print(f"epoch {epoch}: {total / args.iters:.4f}")


if __name__ == "__main__":
    main()
