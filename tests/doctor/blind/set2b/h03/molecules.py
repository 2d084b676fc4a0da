import torch
from torch.utils.data import Dataset


class Assays(Dataset):
    """Random molecule-like graphs; most assays were not run on most molecules."""

    def __init__(self, n=400, n_tasks=6, missing=0.6, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.items = []
        w = torch.randn(8, n_tasks, generator=torch.Generator().manual_seed(77))
        for _ in range(n):
            k = int(torch.randint(5, 12, (1,), generator=g))
            x = torch.nn.functional.one_hot(torch.randint(0, 8, (k,), generator=g), 8).float()
            tree = torch.tensor([[int(torch.randint(0, i, (1,), generator=g)), i] for i in range(1, k)]).t()
            y = x.mean(0) @ w * 3 + 0.1 * torch.randn(n_tasks, generator=g)
            y[torch.rand(n_tasks, generator=g) < missing] = float("nan")
            self.items.append((x, torch.cat([tree, tree.flip(0)], 1), y))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(batch):
    xs, es, ys, owner, off = [], [], [], [], 0
    for i, (x, e, y) in enumerate(batch):
        xs.append(x)
        es.append(e + off)
        ys.append(y)
        owner.append(torch.full((len(x),), i))
        off += len(x)
    return torch.cat(xs), torch.cat(es, 1), torch.cat(owner), torch.stack(ys)
