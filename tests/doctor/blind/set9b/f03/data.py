import random

import torch
from torch.utils.data import Dataset


class IdentityImages(Dataset):
    def __init__(self, identities, size=16, seed=5):
        gen = torch.Generator().manual_seed(seed)
        rng = random.Random(seed)
        images, labels = [], []
        for i in range(identities):
            base = torch.randn(1, size, size, generator=gen)
            for _ in range(rng.choice([1, 2, 3, 5])):
                images.append(base + 0.4 * torch.randn(1, size, size, generator=gen))
                labels.append(i)
        self.images = torch.stack(images)
        self.labels = torch.tensor(labels)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.images[i], self.labels[i]


class TripletSampler(Dataset):
    def __init__(self, base, length, seed=0):
        self.base = base
        self.length = length
        self.rng = random.Random(seed)
        self.by_label = {}
        for index, label in enumerate(base.labels.tolist()):
            self.by_label.setdefault(label, []).append(index)
        self.names = sorted(self.by_label)

    def __len__(self):
        return self.length

    def __getitem__(self, _):
        a, b = self.rng.sample(self.names, 2)
        anchor = self.rng.choice(self.by_label[a])
        positive = self.rng.choice(self.by_label[a])
        negative = self.rng.choice(self.by_label[b])
        return tuple(self.base.images[i] for i in (anchor, positive, negative))
