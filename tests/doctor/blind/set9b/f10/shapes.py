import torch
from torch.utils.data import Dataset


class ShapeMasks(Dataset):
    def __init__(self, count, seed, size=64):
        gen = torch.Generator().manual_seed(seed)
        yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
        self.images, self.masks = [], []
        for _ in range(count):
            cx, cy = (size * (0.25 + 0.5 * torch.rand(2, generator=gen))).tolist()
            r = size * (0.1 + 0.15 * float(torch.rand(1, generator=gen)))
            mask = (((xx - cx) ** 2 + (yy - cy) ** 2) < r * r).float()
            self.images.append((mask + 0.5 * torch.randn(size, size, generator=gen)).unsqueeze(0))
            self.masks.append(mask.unsqueeze(0))

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i], self.masks[i]
