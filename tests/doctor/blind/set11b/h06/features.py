import torch


def sessions(n, items, seed):
    """History of 4 items, next item, and two side features of which some are missing."""
    g = torch.Generator().manual_seed(seed)
    genre = torch.randint(8, (n,), generator=g)
    per = items // 8
    hist = genre[:, None] * per + torch.randint(per, (n, 4), generator=g)
    nxt = genre * per + (hist[:, -1] % per + 1) % per
    side = torch.stack([torch.rand(n, generator=g) * 50, genre.float() + torch.randn(n, generator=g)], -1)
    side[torch.rand(n, 2, generator=g) < 0.2] = float("nan")
    return hist, side, nxt


class Imputer:
    """Standardise what is there, zero and a flag for what is not."""

    def fit(self, side):
        self.mean = side.nanmean(0)
        self.std = (side - self.mean).square().nanmean(0).sqrt()
        return self

    def __call__(self, side):
        z = (side - self.mean) / self.std
        missing = torch.isnan(z)
        return torch.cat([torch.where(missing, torch.zeros_like(z), z), missing.float()], -1)
