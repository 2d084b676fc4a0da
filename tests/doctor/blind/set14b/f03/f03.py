import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from events import EventLoader, simulate

KINDS, LENGTH, HORIZON = 5, 20, 9.0


class HistoryAttention(nn.Module):
    """Each event reads the events that came before it and are not older than the horizon."""

    def __init__(self, dim, horizon):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))
        self.out = nn.Linear(dim, dim)
        self.decay = nn.Parameter(torch.tensor(0.1))
        self.horizon = horizon

    def forward(self, x, times):
        age = times.unsqueeze(2) - times.unsqueeze(1)
        visible = (age > 0) & (age <= self.horizon)
        visible[:, 0, 0] = True
        score = self.q(x) @ self.k(x).transpose(1, 2) / math.sqrt(x.shape[-1])
        score = score - F.softplus(self.decay) * age.abs()
        score = score.masked_fill(~visible, float("-inf"))
        return self.out(torch.softmax(score, -1) @ self.v(x))


class EventModel(nn.Module):
    def __init__(self, kinds, dim=32, layers=2):
        super().__init__()
        self.mark = nn.Embedding(kinds, dim)
        self.gap = nn.Linear(1, dim)
        self.attn = nn.ModuleList(HistoryAttention(dim, HORIZON) for _ in range(layers))
        self.ff = nn.ModuleList(nn.Sequential(nn.Linear(dim, 64), nn.ReLU(), nn.Linear(64, dim))
                                for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        self.kind_head = nn.Linear(dim, kinds)
        self.rate_head = nn.Linear(dim, 1)

    def forward(self, marks, times):
        gap = torch.diff(times, dim=1, prepend=times[:, :1])
        x = self.mark(marks) + self.gap(torch.log1p(gap).unsqueeze(-1))
        for attn, ff in zip(self.attn, self.ff):
            x = x + attn(x, times)
            x = x + ff(x)
        x = self.norm(x)
        return self.kind_head(x), self.rate_head(x).squeeze(-1)


def step_loss(model, marks, times):
    logits, log_rate = model(marks[:, :-1], times[:, :-1])
    wait = torch.diff(times, dim=1)
    kind_nll = F.cross_entropy(logits.flatten(0, 1), marks[:, 1:].flatten())
    wait_nll = (log_rate.exp() * wait - log_rate).mean()
    return kind_nll, wait_nll


if __name__ == "__main__":
    torch.manual_seed(1)
    generator = torch.Generator().manual_seed(1)
    marks, times = simulate(640, LENGTH, KINDS, generator)
    loader = EventLoader(marks, times, batch=32, seed=1)
    model = EventModel(KINDS)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for epoch in range(6):
        seen = []
        for it, (m, t) in enumerate(loader):
            kind_nll, wait_nll = step_loss(model, m, t)
            loss = kind_nll + wait_nll
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            seen.append((kind_nll.item(), wait_nll.item()))
        kn, wn = (sum(c) / len(seen) for c in zip(*seen))
        print(f"epoch {epoch}: kind nll {kn:.4f}, wait nll {wn:.4f}")
