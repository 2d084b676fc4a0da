import torch
from torch import nn


class SensorNet(nn.Module):
    """1-d convolutional network for windows of a six axis sensor."""

    def __init__(self, classes=10, ch=32):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv1d(6, ch, 5, padding=2), nn.BatchNorm1d(ch), nn.ReLU(), nn.MaxPool1d(2),
            nn.Conv1d(ch, 2 * ch, 3, padding=1), nn.BatchNorm1d(2 * ch), nn.ReLU(),
            nn.AdaptiveAvgPool1d(1), nn.Flatten(),
        )
        self.head = nn.Linear(2 * ch, classes)

    def forward(self, x):
        return self.head(self.features(x))


def pretrained(seed=0):
    torch.manual_seed(seed)
    return SensorNet()


def adapt(net, classes):
    for p in net.features.parameters():
        p.requires_grad_(False)
    net.head = nn.Linear(net.head.in_features, classes)
    return net
