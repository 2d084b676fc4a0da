"""Synthetic CT-like slices: a body ellipse with organs; the label is 'organ present'."""
import numpy as np
import torch
from torch.utils.data import Dataset

HU_MIN, HU_MAX = -160.0, 240.0


def window(slice_hu):
    return np.clip(slice_hu, HU_MIN, HU_MAX)


def standardize(img):
    return (img - img.mean()) / img.std()


class SliceDataset(Dataset):
    def __init__(self, n_series, depth=12, size=20, seed=0):
        rng = np.random.default_rng(seed)
        yy, xx = np.mgrid[-1:1:size * 1j, -1:1:size * 1j]
        self.slices, self.labels = [], []
        for s in range(n_series):
            couch_offset = 1 if rng.random() < 0.12 else 0
            for z in range(depth):
                hu = np.full((size, size), -1000.0)
                if z >= couch_offset:
                    body = (yy / 0.8) ** 2 + (xx / 0.9) ** 2 < 1
                    hu[body] = rng.normal(20, 25, body.sum())
                organ = z > 1 and rng.random() < 0.5
                if organ:
                    cy, cx = rng.uniform(-0.3, 0.3, 2)
                    hu[(yy - cy) ** 2 + (xx - cx) ** 2 < 0.12] += 130
                self.slices.append(hu)
                self.labels.append(int(organ))

    def __len__(self):
        return len(self.slices)

    def __getitem__(self, i):
        img = standardize(window(self.slices[i])).astype(np.float32)
        return torch.from_numpy(img)[None], self.labels[i]
