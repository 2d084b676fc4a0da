import torch
from torch.utils.data import Dataset


def simulate_index(n=2600, start=12.0, drift=0.0023, vol=0.012, seed=7):
    g = torch.Generator().manual_seed(seed)
    r = drift + vol * torch.randn(n, 3, generator=g)
    return start * torch.exp(torch.cumsum(r, 0))


class WindowDataset(Dataset):
    """Sliding windows in chronological order; the target is the next day's return."""

    def __init__(self, series, window=32, stride=4):
        self.series = series
        self.window = window
        self.starts = list(range(0, len(series) - window - 1, stride))

    def __len__(self):
        return len(self.starts)

    def __getitem__(self, i):
        s = self.starts[i]
        x = self.series[s:s + self.window]
        nxt = self.series[s + self.window, 0]
        y = 100.0 * (nxt / x[-1, 0] - 1.0)
        return x, y
