import torch
from torch import nn


class Backbone(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.stages = nn.ModuleList([
            nn.Sequential(nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()),
            nn.Sequential(nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), nn.BatchNorm2d(2 * width), nn.ReLU()),
        ])
        self.dim = 2 * width

    def forward(self, x):
        for stage in self.stages:
            x = stage(x)
        return x.mean(dim=(2, 3))


class Classifier(nn.Module):
    """Pretext training on rotations first; then the head is exchanged for the real task."""

    def __init__(self, pretext_classes=4):
        super().__init__()
        self.backbone = Backbone()
        self.head = nn.Linear(self.backbone.dim, pretext_classes)

    def new_head(self, classes):
        self.head = nn.Sequential(nn.Dropout(0.1), nn.Linear(self.backbone.dim, classes))

    def forward(self, x):
        return self.head(self.backbone(x))

    def groups(self):
        return list(self.backbone.parameters()), list(self.head.parameters())


def shapes(n, seed, size=12):
    """Bars, corners and crosses."""
    g = torch.Generator().manual_seed(seed)
    x = 0.2 * torch.randn(n, 1, size, size, generator=g)
    y = torch.randint(0, 3, (n,), generator=g)
    for i in range(n):
        r, c = (int(v) for v in torch.randint(3, size - 3, (2,), generator=g))
        x[i, 0, r, 1:-1] += 1.0
        if y[i] == 1:
            x[i, 0, r:, c] += 1.0
        if y[i] == 2:
            x[i, 0, :, c] += 1.0
    return x, y
