import torch
from torch.utils.data import Dataset


class Assays(Dataset):
    """Fingerprints with up to 5 measured endpoints; an endpoint that was not measured is NaN."""

    def __init__(self, n, seed, dim=64, endpoints=5, missing=0.6):
        g = torch.Generator().manual_seed(seed)
        w = torch.randn(dim, endpoints, generator=torch.Generator().manual_seed(0)) / dim ** 0.5
        self.x = (torch.rand(n, dim, generator=g) < 0.3).float()
        y = self.x @ w + 0.1 * torch.randn(n, endpoints, generator=g)
        y[torch.rand(n, endpoints, generator=g) < missing] = float("nan")
        self.y = y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]
