from torch import nn

from features import LogMel


class KeywordNet(nn.Module):
    def __init__(self, n_classes, width=24):
        super().__init__()
        self.front = LogMel()
        self.body = nn.Sequential(
            nn.Conv1d(20, width, 5, padding=2),
            nn.GroupNorm(4, width),
            nn.GELU(),
            nn.Conv1d(width, width, 5, padding=2, stride=2),
            nn.GroupNorm(4, width),
            nn.GELU(),
            nn.AdaptiveAvgPool1d(1),
            nn.Flatten(),
        )
        self.head = nn.Linear(width, n_classes)

    def forward(self, wave):
        return self.head(self.body(self.front(wave)))
