import torch
from torch.utils.data import IterableDataset


class Headlines(IterableDataset):
    """Short texts on six topics; the vocabulary grows as newer texts come in."""

    def __init__(self, words, steps, batch, length=12, seed=0):
        self.words, self.steps, self.batch, self.length, self.seed = words, steps, batch, length, seed

    def __iter__(self):
        g = torch.Generator().manual_seed(self.seed)
        n = len(self.words)
        for s in range(self.steps):
            known = min(n, 120 + 6 * s)
            label = torch.randint(0, 6, (self.batch,), generator=g)
            base = torch.randint(0, known // 6, (self.batch, self.length), generator=g) * 6
            noise = torch.randint(0, known, (self.batch, self.length), generator=g)
            keep = torch.rand(self.batch, self.length, generator=g) < 0.6
            ids = torch.where(keep, base + label.unsqueeze(1), noise)
            yield ids, label
