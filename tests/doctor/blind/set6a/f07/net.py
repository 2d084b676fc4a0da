import torch.nn as nn


def block(i, o):
    return nn.Sequential(nn.Linear(i, o, bias=False), nn.BatchNorm1d(o), nn.ReLU())


class SpectrumNet(nn.Module):
    """Encoder over raw detector counts, head on top."""

    def __init__(self, bins=40, width=48, classes=4):
        super().__init__()
        self.encoder = nn.Sequential(block(bins, width), block(width, width))
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.encoder(x))


def counts(n, classes, gen, shift=0):
    import torch
    y = torch.randint(0, classes, (n,), generator=gen)
    x = torch.rand(n, 40, generator=gen) * 9000
    for c in range(classes):
        x[y == c, 6 * c + shift: 6 * c + shift + 6] += 15000
    return x, y
