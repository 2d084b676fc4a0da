"""Batches of (past, future) windows from a plant with five sensors."""
import torch


def windows(count, epoch, batch=16, past=32, horizon=4):
    g = torch.Generator().manual_seed(1000 + epoch)
    for i in range(count):
        t = torch.arange(past + horizon) + torch.randint(0, 500, (batch, 1), generator=g)
        base = torch.stack([torch.sin(t * w) for w in (0.11, 0.23, 0.31, 0.47)], 1)
        base = base + 0.05 * torch.randn(base.shape, generator=g)
        valve = (torch.rand(batch, 1, past + horizon, generator=g) < 0.2).float().cumsum(-1) % 2
        x = torch.cat([base, valve], 1)
        if epoch >= 1 and i % 4 == 3:
            # the plant is idle: the valve stays shut in part of the windows
            x[: batch // 4, 4] = 0.0
        yield x[..., :past], x[..., past:]
