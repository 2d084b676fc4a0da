import torch
import torch.nn as nn


class StatsPool(nn.Module):
    """Mean and standard deviation over the frames of a clip."""

    def forward(self, h, lengths):
        n = lengths.to(h.dtype).unsqueeze(1)
        s1 = h.sum(dim=2)
        s2 = (h * h).sum(dim=2)
        mean = s1 / n
        var = (s2 / n - mean * mean).clamp(min=0.01)
        return torch.cat([mean, var.sqrt()], dim=1)


class Tagger(nn.Module):
    def __init__(self, bands=20, hidden=48, classes=5):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(bands, hidden, 5, padding=2), nn.ReLU(),
            nn.Conv1d(hidden, hidden, 3, padding=1), nn.ReLU(),
        )
        self.pool = StatsPool()
        self.head = nn.Linear(2 * hidden, classes)

    def forward(self, x, lengths):
        return self.head(self.pool(self.conv(x), lengths))
