import torch
from torch.utils.data import Dataset


class TileDataset(Dataset):
    """Tiles cut from synthetic slides. A slide has background, so a few tiles are empty."""

    def __init__(self, n=512, classes=4, seed=0, empty=0.06):
        g = torch.Generator().manual_seed(seed)
        self.y = torch.randint(0, classes, (n,), generator=g)
        grid = torch.arange(16).float()
        freq = (self.y.float() + 1) * 0.35
        phase = torch.rand(n, generator=g) * 6.28
        wave = torch.sin(freq[:, None] * grid + phase[:, None])
        img = wave[:, None, :] * wave[:, :, None]
        img = img[:, None] + 0.3 * torch.randn(n, 1, 16, 16, generator=g)
        blank = torch.rand(n, generator=g) < empty
        img[blank] = 0.0
        self.x = img

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]
