import torch
from torch.utils.data import Dataset


class ClickLog(Dataset):
    """Each row: items a user looked at before, the item on offer, clicked or not."""

    def __init__(self, n=2400, items=40, longest=12, seed=0):
        g = torch.Generator().manual_seed(seed)
        taste = torch.randn(items, 6, generator=torch.Generator().manual_seed(99))
        self.rows = []
        for _ in range(n):
            length = int(torch.randint(1, longest + 1, (1,), generator=g))
            if torch.rand(1, generator=g) < 0.04:
                length = 0
            hist = torch.randint(1, items, (length,), generator=g)
            cand = int(torch.randint(1, items, (1,), generator=g))
            like = taste[hist].mean(0) @ taste[cand] if length else taste[cand].sum() * 0.1
            label = float(like + 0.3 * torch.randn(1, generator=g) > 0)
            self.rows.append((hist, cand, label))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(rows):
    width = max(1, max(len(h) for h, _, _ in rows))
    hist = torch.zeros(len(rows), width, dtype=torch.long)
    for i, (h, _, _) in enumerate(rows):
        hist[i, :len(h)] = h
    cand = torch.tensor([c for _, c, _ in rows])
    label = torch.tensor([y for _, _, y in rows])
    return hist, cand, label
