import torch.nn as nn


class PriceNet(nn.Module):
    def __init__(self, inputs, width=64, dropout=0.05):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(inputs, width), nn.SiLU(), nn.LayerNorm(width), nn.Dropout(dropout),
            nn.Linear(width, width), nn.SiLU(), nn.LayerNorm(width),
        )
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        return self.out(self.body(x)).squeeze(-1)
