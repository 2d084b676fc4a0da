import torch
from torch.utils.data import Dataset


class LedgerWindows(Dataset):
    """Windows of daily turnover in raw currency units, next days' relative change as the target."""

    def __init__(self, n=600, window=16, n_features=10, horizon=4, seed=3):
        g = torch.Generator().manual_seed(seed)
        level = 900 + 600 * torch.rand(n, 1, n_features, generator=g)
        trend = torch.randn(n, 1, n_features, generator=g) * 0.02
        t = torch.arange(window).view(1, -1, 1)
        self.x = level * (1 + trend * t) + 5 * torch.randn(n, window, n_features, generator=g)
        w = torch.randn(n_features, horizon, generator=g)
        self.y = trend[:, 0] @ w * 20

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]
