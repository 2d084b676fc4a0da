import torch
from torch.utils.data import Dataset


class CachedFeatures(Dataset):
    """Sentence embeddings, cached in half precision to save disk space."""

    def __init__(self, n=1200, dim=96, classes=6, seed=0):
        g = torch.Generator().manual_seed(seed)
        centre = torch.randn(classes, dim, generator=torch.Generator().manual_seed(77))
        self.y = torch.randint(0, classes, (n,), generator=g)
        self.x = (centre[self.y] * 0.4 + torch.randn(n, dim, generator=g)).half()

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]
