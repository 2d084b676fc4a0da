"""Click histories, most active users first (the export is ordered by activity)."""
import torch
from torch.utils.data import Dataset


class Sessions(Dataset):
    def __init__(self, users=480, items=200, max_len=20, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.rows = []
        for u in range(users):
            n = round(max_len * (1 - u / users) ** 1.2 - 0.2)
            taste = int(torch.randint(0, 10, (1,), generator=g))
            hist = taste * 20 + torch.randint(0, 20, (max(n, 0),), generator=g)
            target = taste * 20 + int(torch.randint(0, 20, (1,), generator=g))
            self.rows.append((hist, target))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(batch, max_len=20):
    hist = torch.zeros(len(batch), max_len, dtype=torch.long)
    mask = torch.zeros(len(batch), max_len, dtype=torch.bool)
    for r, (h, _) in enumerate(batch):
        hist[r, :len(h)] = h
        mask[r, :len(h)] = True
    return hist, mask, torch.tensor([t for _, t in batch])
