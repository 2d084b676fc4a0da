import torch.nn as nn


class Residual(nn.Module):
    def __init__(self, ch, dilation):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(ch, ch, 3, padding=dilation, dilation=dilation), nn.ReLU(),
            nn.Conv1d(ch, ch, 1),
        )

    def forward(self, x):
        return x + self.body(x)


class TCN(nn.Module):
    def __init__(self, cin=4, ch=24, levels=4, classes=2):
        super().__init__()
        self.stem = nn.Conv1d(cin, ch, 5, padding=2)
        self.levels = nn.Sequential(*[Residual(ch, 2 ** i) for i in range(levels)])
        self.head = nn.Linear(ch, classes)

    def forward(self, x):
        return self.head(self.levels(self.stem(x)).mean(-1))
