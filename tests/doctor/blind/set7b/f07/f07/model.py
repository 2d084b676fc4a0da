import torch
from torch import nn


class KeywordNet(nn.Module):
    def __init__(self, n_mels, classes, width=32):
        super().__init__()
        self.front = nn.Sequential(
            nn.Conv1d(n_mels, width, 3, padding=1), nn.GroupNorm(4, width), nn.ReLU(),
            nn.Conv1d(width, width, 3, padding=1, stride=2), nn.GroupNorm(4, width), nn.ReLU(),
        )
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, classes)

    def forward(self, feats):
        h = self.front(feats.transpose(1, 2)).transpose(1, 2)
        _, last = self.rnn(h.float())
        return self.head(last[0])
