import random

import torch
from torch.utils.data import Dataset


class CountingSequences(Dataset):
    def __init__(self, n, vocab, seed=0):
        rng = random.Random(seed)
        self.rows = []
        for _ in range(n):
            start, stride = rng.randrange(1, vocab), rng.choice([1, 2, 5])
            self.rows.append([1 + (start + stride * k) % (vocab - 1) for k in range(rng.randint(4, 20))])

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def pad_left(rows):
    width = max(map(len, rows))
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    pad = torch.ones(len(rows), width, dtype=torch.bool)
    for i, row in enumerate(rows):
        ids[i, width - len(row):] = torch.tensor(row)
        pad[i, width - len(row):] = False
    return ids, pad
