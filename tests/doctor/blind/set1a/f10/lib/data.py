import torch
from torch.utils.data import DataLoader, TensorDataset


def make_loaders(n=384, classes=6, size=16, batch=16, seed=0):
    g = torch.Generator().manual_seed(seed)
    proto = torch.randn(classes, 3, size, size, generator=g)
    y = torch.randint(0, classes, (n,), generator=g)
    x = proto[y] + 1.2 * torch.randn(n, 3, size, size, generator=g)
    k = int(0.8 * n)
    train, val = TensorDataset(x[:k], y[:k]), TensorDataset(x[k:], y[k:])
    return (DataLoader(train, batch, shuffle=True, drop_last=True, generator=torch.Generator().manual_seed(seed)),
            DataLoader(val, 64))
