import torch
import torch.nn as nn


class TDNNBlock(nn.Module):
    def __init__(self, cin, cout, k, d):
        super().__init__()
        self.conv = nn.Conv1d(cin, cout, k, dilation=d, padding=d * (k - 1) // 2)
        self.act = nn.ReLU()

    def forward(self, x):
        return self.act(self.conv(x))


class StatsPool(nn.Module):
    """Mean and standard deviation over the valid frames."""

    def forward(self, h, mask):
        m = mask.unsqueeze(1).to(h.dtype)
        n = mask.sum(1, keepdim=True)
        h = h * m
        s1 = h.sum(dim=2)
        s2 = (h * h).sum(dim=2)
        mean = s1 / n
        var = s2 / n - mean ** 2
        return torch.cat([mean, (var.clamp(min=0) + 1e-4).sqrt()], dim=1)


class XVector(nn.Module):
    def __init__(self, n_mels, n_speakers, width=32):
        super().__init__()
        self.frames = nn.ModuleList([
            TDNNBlock(n_mels, width, 5, 1),
            TDNNBlock(width, width, 3, 2),
            TDNNBlock(width, width, 3, 3),
        ])
        self.pool = StatsPool()
        self.bn = nn.BatchNorm1d(2 * width)
        self.embed = nn.Linear(2 * width, 32)
        self.out = nn.Linear(32, n_speakers)

    def forward(self, x, mask):
        for blk in self.frames:
            x = blk(x)
        z = self.embed(self.bn(self.pool(x, mask)))
        return self.out(torch.relu(z))
