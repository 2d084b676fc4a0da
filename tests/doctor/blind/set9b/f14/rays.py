import math

import torch
from torch.utils.data import Dataset


class RayDataset(Dataset):
    def __init__(self, views, pixels):
        blobs = torch.tensor([[0.0, 0.0], [0.4, 0.3], [-0.5, 0.2]])
        colors = torch.eye(3)
        t = torch.linspace(0.5, 3.5, 64)
        origins, directions, targets = [], [], []
        for v in range(views):
            a = 2 * math.pi * v / views
            o = torch.tensor([2 * math.cos(a), 2 * math.sin(a)])
            angle = math.pi + a + torch.linspace(-0.45, 0.45, pixels)
            d = torch.stack([angle.cos(), angle.sin()], 1)
            pts = o + t[None, :, None] * d[:, None, :]
            dist = (pts[:, :, None, :] - blobs).norm(dim=-1)
            hit = torch.exp(-(dist / 0.15) ** 2).amax(dim=1)
            origins.append(o.expand(pixels, 2))
            directions.append(d)
            targets.append((hit[..., None] * colors).sum(1).clamp(0, 1))
        self.o, self.d, self.c = torch.cat(origins), torch.cat(directions), torch.cat(targets)

    def __len__(self):
        return len(self.o)

    def __getitem__(self, i):
        return self.o[i], self.d[i], self.c[i]
