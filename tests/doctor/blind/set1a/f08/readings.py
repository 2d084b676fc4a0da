import csv

import torch
from torch.utils.data import Dataset


def to_float(cell):
    try:
        return float(cell)
    except ValueError:
        return float("nan")


class Readings(Dataset):
    def __init__(self, path, split, ratio=0.85):
        with open(path, newline="") as f:
            rows = [[to_float(c) for c in r] for r in list(csv.reader(f))[1:]]
        table = torch.tensor(rows)
        cut = int(len(table) * ratio)
        train = table[:cut]
        self.mu = train.nanmean(0)
        self.sd = (train - self.mu).square().nanmean(0).sqrt()
        part = train if split == "train" else table[cut:]
        self.data = (part - self.mu) / self.sd

    def __len__(self):
        return len(self.data)

    def __getitem__(self, i):
        return self.data[i, :-1], self.data[i, -1]
