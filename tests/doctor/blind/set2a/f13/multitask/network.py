from torch import nn


class Trunk(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                                  nn.Conv2d(12, 16, 3, padding=1), nn.ReLU(), nn.Flatten())
        self.proj = nn.Linear(16 * 36, dim)
        self.kind = nn.Linear(dim, 3)

    def forward(self, x):
        feat = self.proj(self.conv(x)).relu()
        return self.kind(feat), feat
