import torch
import torch.nn as nn


class TimeEncoding(nn.Module):
    """Sine features of an event's age, at learnable periods (seconds)."""

    def __init__(self, n=8, longest=86400.0 * 7):
        super().__init__()
        self.period = nn.Parameter(torch.logspace(1, torch.log10(torch.tensor(longest)).item(), n))

    def forward(self, age):
        ang = 6.2832 * age.unsqueeze(-1) / self.period
        return torch.cat([torch.sin(ang), torch.cos(ang), ang.tanh() * self.period.log1p()], dim=-1)


class EventModel(nn.Module):
    def __init__(self, n_types=12, dim=32, out=1):
        super().__init__()
        self.time = TimeEncoding()
        self.kind = nn.Embedding(n_types, dim)
        self.mix = nn.Linear(dim + 24, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.head = nn.Linear(dim, out)

    def forward(self, kind, age):
        h = torch.cat([self.kind(kind), self.time(age)], dim=-1)
        h = torch.relu(self.mix(h))
        h, _ = self.rnn(h)
        return self.head(h[:, -1]).squeeze(-1)
