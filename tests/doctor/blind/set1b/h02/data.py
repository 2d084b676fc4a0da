import torch
from torch.utils.data import Dataset


class Assays(Dataset):
    """Molecule fingerprints with several measured properties; most were not measured."""

    def __init__(self, n, bits=128, tasks=5, missing=0.6, seed=0):
        gen = torch.Generator().manual_seed(seed)
        weights = torch.randn(bits, tasks, generator=torch.Generator().manual_seed(1234)) / 4
        self.x = (torch.rand(n, bits, generator=gen) < 0.2).float()
        y = self.x @ weights + 0.05 * torch.randn(n, tasks, generator=gen)
        unknown = torch.rand(n, tasks, generator=gen) < missing
        self.y = y.masked_fill(unknown, float("nan"))

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]
