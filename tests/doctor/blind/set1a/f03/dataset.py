import torch
from torch.utils.data import Dataset


class Clips(Dataset):
    """Log-mel like clips. Training draws short random crops, validation returns whole clips."""

    def __init__(self, n, frames, crop=None, seed=0, classes=5, bands=20):
        g = torch.Generator().manual_seed(seed)
        proto = torch.randn(classes, bands, generator=torch.Generator().manual_seed(99))
        self.y = torch.randint(0, classes, (n,), generator=g)
        self.x = []
        for k in self.y.tolist():
            noise = torch.randn(bands, frames, generator=g)
            self.x.append(6.0 * noise + 3.0 * proto[k].unsqueeze(1))
        self.crop = crop
        self.g = g

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        x = self.x[i]
        if self.crop:
            s = int(torch.randint(0, x.shape[1] - self.crop + 1, (1,), generator=self.g))
            x = x[:, s:s + self.crop]
        return x, torch.tensor(x.shape[1]), self.y[i]
