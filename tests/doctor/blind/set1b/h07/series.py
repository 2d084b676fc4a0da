import math

import torch


def demand(n, seed):
    """Hourly demand with a storm in which it is twelve times as large."""
    gen = torch.Generator().manual_seed(seed)
    t = torch.arange(n).float()
    y = 10 + 3 * torch.sin(2 * math.pi * t / 24) + torch.sin(2 * math.pi * t / 168)
    y = y + 0.3 * torch.randn(n, generator=gen)
    y[n // 2:n // 2 + 20] *= 12
    return y


def windows(y, window, horizon, batch):
    starts = list(range(0, len(y) - window - horizon, 3))
    for k in range(0, len(starts), batch):
        part = starts[k:k + batch]
        yield (torch.stack([y[s:s + window] for s in part]),
               torch.stack([y[s + window:s + window + horizon] for s in part]))
