from torch import nn


class Forecaster(nn.Module):
    def __init__(self, tickers, dim=32):
        super().__init__()
        self.inp = nn.Conv1d(tickers, dim, 3, padding=1)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 1))

    def forward(self, past):
        x = (past * 50).transpose(1, 2)
        x = self.inp(x).relu().transpose(1, 2)
        x, _ = self.rnn(x)
        return self.out(x[:, -1].float()).squeeze(-1)
