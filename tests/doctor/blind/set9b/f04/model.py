import torch
from torch import nn


class TDNN(nn.Module):
    def __init__(self, cin, cout, context, dilation=1):
        super().__init__()
        self.conv = nn.Conv1d(cin, cout, context, dilation=dilation, padding=dilation * (context // 2))

    def forward(self, x):
        return torch.relu(self.conv(x))


class StatsPool(nn.Module):
    def __init__(self, floor=1e-4):
        super().__init__()
        self.floor = floor

    def forward(self, h, lengths):
        steps = torch.arange(h.shape[-1])
        keep = (steps[None, :] < lengths[:, None]).unsqueeze(1)
        h = h * keep
        n = lengths[:, None]
        mean = h.sum(dim=-1) / n
        second = (h * h).sum(dim=-1) / n
        std = (second - mean * mean).clamp(min=self.floor).sqrt()
        return torch.cat([mean, std], dim=1)


class SpeakerNet(nn.Module):
    def __init__(self, n_mels, width, embed):
        super().__init__()
        self.frames = nn.Sequential(TDNN(n_mels, width, 5), TDNN(width, width, 3, 2), TDNN(width, width, 3, 3),
                                    TDNN(width, width, 1))
        self.pool = StatsPool()
        self.segment = nn.Sequential(nn.Linear(2 * width, embed), nn.LayerNorm(embed))
        for m in self.frames.modules():
            if isinstance(m, nn.Conv1d):
                nn.init.kaiming_normal_(m.weight, nonlinearity="relu")
                nn.init.zeros_(m.bias)

    def forward(self, feats, lengths):
        return self.segment(self.pool(self.frames(feats), lengths))
