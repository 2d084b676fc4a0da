import torch.nn as nn


def block(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1, bias=False),
                         nn.BatchNorm2d(cout), nn.ReLU(), nn.MaxPool2d(2))


class Encoder(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.stages = nn.Sequential(block(1, width), block(width, 2 * width), block(2 * width, 2 * width))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.dim = 2 * width

    def forward(self, x):
        return self.pool(self.stages(x)).flatten(1)


class Classifier(nn.Module):
    def __init__(self, encoder, n_classes):
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(encoder.dim, n_classes)

    def forward(self, x):
        return self.head(self.encoder(x))
