import numpy as np
import torch


class Catalog:
    """Prices (cents), weights (g), dimensions (mm) of products from 12 families."""

    def __init__(self, n=1200, n_fields=24, families=12, seed=5):
        rng = np.random.default_rng(seed)
        centers = rng.uniform(80, 900, size=(families, n_fields))
        self.y = rng.integers(0, families, size=n)
        x = centers[self.y] * rng.lognormal(0.0, 0.7, size=(n, n_fields))
        self.x = x.astype(np.float32)

    def split(self, frac=0.8):
        k = int(len(self.x) * frac)
        to = lambda v: torch.from_numpy(v)
        return (to(self.x[:k]), to(self.y[:k])), (to(self.x[k:]), to(self.y[k:]))


def family_batches(x, y, per_batch, gen):
    order = torch.randperm(len(x), generator=gen)
    for i in range(0, len(order) - per_batch + 1, per_batch):
        j = order[i:i + per_batch]
        yield x[j], y[j]
