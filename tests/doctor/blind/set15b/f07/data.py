import torch
from torch.utils.data import Dataset


def simulate(n, seed=0):
    """Card transactions: amount, account balance, hour, merchant, country -> chargeback."""
    g = torch.Generator().manual_seed(seed)
    amount = torch.distributions.LogNormal(3.0, 1.0).sample((n,))
    balance = 5000 * torch.rand(n, generator=g)
    hour = torch.randint(0, 24, (n,), generator=g)
    merchant = torch.randint(0, 60, (n,), generator=g)
    country = torch.randint(0, 12, (n,), generator=g)
    risk = 0.8 * (torch.log(amount) - 3) + 0.9 * (merchant % 7 == 0).float() - 0.4 * (country < 6).float()
    label = (risk + 0.5 * torch.randn(n, generator=g) > 0.6).float()
    # reversals are booked with the opposite sign
    reversal = torch.rand(n, generator=g) < 0.006
    amount = torch.where(reversal, -amount, amount)
    return amount, balance, hour, merchant, country, label


class Standardise:
    def fit(self, x):
        self.med = x.nanmedian()
        self.iqr = x.nanquantile(0.75) - x.nanquantile(0.25)
        return self

    def __call__(self, x):
        return (x - self.med) / self.iqr


class CardData(Dataset):
    def __init__(self, n, seed=0):
        amount, balance, hour, merchant, country, label = simulate(n, seed)
        money = torch.stack([torch.log1p(amount), torch.log1p(balance)], 1)
        self.num = torch.stack([Standardise().fit(c)(c) for c in money.unbind(1)], 1)
        ang = hour.float() / 24 * 6.2831853
        self.num = torch.cat([self.num, ang.sin()[:, None], ang.cos()[:, None]], 1)
        self.cat = torch.stack([merchant, country], 1)
        self.y = label

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.num[i], self.cat[i], self.y[i]
