import math
import random

import torch
from torch.utils.data import Dataset


class RandomNoise:
    def __init__(self, sigma):
        self.sigma = sigma

    def __call__(self, img):
        return img + self.sigma * torch.randn_like(img)


class RandomGamma:
    def __init__(self, low=0.7, high=1.5, p=0.3):
        self.low, self.high, self.p = math.log(low), math.log(high), p

    def __call__(self, img):
        if random.random() > self.p:
            return img
        return img ** math.exp(random.uniform(self.low, self.high))


class RandomCrop:
    def __init__(self, size, pad=2):
        self.size, self.pad = size, pad

    def __call__(self, img):
        img = torch.nn.functional.pad(img, [self.pad] * 4, mode="replicate")
        i, j = random.randint(0, 2 * self.pad), random.randint(0, 2 * self.pad)
        return img[:, i:i + self.size, j:j + self.size]


class Shapes(Dataset):
    """Gray level shapes: disc, square, cross; pixel values in [0, 1]."""

    def __init__(self, n, transforms=(), seed=0):
        g = torch.Generator().manual_seed(seed)
        yy, xx = torch.meshgrid(torch.arange(16.0), torch.arange(16.0), indexing="ij")
        self.images, self.labels = [], []
        for k in range(n):
            cy, cx = (torch.rand(2, generator=g) * 6 + 5).tolist()
            r = 2.5 + 2 * torch.rand((), generator=g).item()
            label = k % 3
            dy, dx = (yy - cy).abs(), (xx - cx).abs()
            if label == 0:
                m = dy ** 2 + dx ** 2 < r ** 2
            elif label == 1:
                m = torch.maximum(dy, dx) < r
            else:
                m = (torch.minimum(dy, dx) < 1.2) & (torch.maximum(dy, dx) < r + 1)
            base = 0.15 + 0.3 * torch.rand((), generator=g).item()
            self.images.append((base + 0.5 * m.float())[None])
            self.labels.append(label)
        self.transforms = transforms

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        img = self.images[i]
        for t in self.transforms:
            img = t(img)
        return (img - 0.4) / 0.3, self.labels[i]
