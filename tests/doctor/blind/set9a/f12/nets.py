import torch
import torch.nn as nn
from torch.utils.data import Dataset


class ShapeSet(Dataset):
    def __init__(self, n, kinds, seed, size=16):
        g = torch.Generator().manual_seed(seed)
        kinds = list(kinds)
        r = torch.arange(size).float() - size / 2
        yy, xx = torch.meshgrid(r, r, indexing="ij")
        base = [xx.abs() < 2, yy.abs() < 2, (xx ** 2 + yy ** 2) < 20, (xx - yy).abs() < 2,
                (xx + yy).abs() < 2, ((xx ** 2 + yy ** 2).sqrt() - 5).abs() < 1.5, (xx.abs() + yy.abs()) < 5]
        base = torch.stack(base).float()
        self.y = torch.randint(len(kinds), (n,), generator=g)
        pick = torch.tensor(kinds)[self.y]
        self.x = base[pick][:, None] + 0.5 * torch.randn(n, 1, size, size, generator=g)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class Residual(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.a = nn.Conv2d(ch, ch, 3, padding=1)
        self.b = nn.Conv2d(ch, ch, 3, padding=1)
        self.na, self.nb = nn.GroupNorm(4, ch), nn.GroupNorm(4, ch)

    def forward(self, x):
        h = torch.relu(self.na(self.a(x)))
        return torch.relu(x + self.nb(self.b(h)))


class TinyResNet(nn.Module):
    def __init__(self, classes, ch=16):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Conv2d(1, ch, 3, stride=2, padding=1), Residual(ch), Residual(ch),
            nn.AdaptiveAvgPool2d(4), nn.Flatten(),
        )
        self.head = nn.Linear(ch * 16, classes)

    def forward(self, x):
        return self.head(self.trunk(x))
