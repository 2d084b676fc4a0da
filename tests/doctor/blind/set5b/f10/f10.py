"""Train a small CIFAR-like net with group norm in place of batch norm, because
the batches are tiny."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


def small_resnet(classes=4, width=16):
    class Residual(nn.Module):
        def __init__(self, c):
            super().__init__()
            self.a = nn.Conv2d(c, c, 3, padding=1, bias=False)
            self.na = nn.BatchNorm2d(c)
            self.b = nn.Conv2d(c, c, 3, padding=1, bias=False)
            self.nb = nn.BatchNorm2d(c)

        def forward(self, x):
            h = F.relu(self.na(self.a(x)))
            return F.relu(x + self.nb(self.b(h)))

    return nn.Sequential(
        nn.Conv2d(3, width, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
        Residual(width), nn.AvgPool2d(2), Residual(width),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes))


def to_group_norm(module, groups=4):
    """Return the network with each BatchNorm2d replaced."""
    module = copy.deepcopy(module)
    for name, child in module.named_children():
        if isinstance(child, nn.BatchNorm2d):
            setattr(module, name, nn.GroupNorm(groups, child.num_features))
        else:
            setattr(module, name, to_group_norm(child, groups))
    return module


def toy_images(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 4, (n,), generator=g)
    x = 0.3 * torch.randn(n, 3, 16, 16, generator=g)
    for i, k in enumerate(y.tolist()):
        r, c = 8 * (k // 2), 8 * (k % 2)
        x[i, k % 3, r:r + 8, c:c + 8] += 1.0
    return x, y


class Run:
    def __init__(self, lr=5e-3, micro=4):
        torch.manual_seed(0)
        self.micro = micro
        self.net = small_resnet()
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=lr)
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, 40)
        if micro < 16:
            self.net = to_group_norm(self.net)

    def epoch(self, x, y):
        self.net.train()
        total = 0.0
        order = torch.randperm(len(x))
        for k, idx in enumerate(order.split(self.micro)):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = F.cross_entropy(self.net(x[idx]), y[idx]) / 4
            loss.backward()
            if k % 4 == 3:
                self.opt.step()
                self.sched.step()
                self.opt.zero_grad()
            total += 4 * loss.item() * len(idx)
        return total / len(x)


if __name__ == "__main__":
    x, y = toy_images(160, 1)
    run = Run()
    for e in range(4):
        print(f"epoch {e} loss {run.epoch(x, y):.4f} lr {run.sched.get_last_lr()[0]:.5f}")
