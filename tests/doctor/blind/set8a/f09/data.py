import torch
from torch.utils.data import Dataset


class Shapes(Dataset):
    def __init__(self, n, size=24, seed=0):
        g = torch.Generator().manual_seed(seed)
        yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
        c = torch.randint(6, size - 6, (n, 2), generator=g)
        r = torch.randint(3, 7, (n,), generator=g)
        d = (yy[None] - c[:, 0, None, None]) ** 2 + (xx[None] - c[:, 1, None, None]) ** 2
        self.mask = (d < (r ** 2)[:, None, None]).float()[:, None]
        self.img = self.mask * 0.8 + 0.4 * torch.randn(self.mask.shape, generator=g)

    def __len__(self):
        return len(self.img)

    def __getitem__(self, i):
        return self.img[i], self.mask[i]
