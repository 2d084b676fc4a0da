import random

import torch
from torch.utils.data import Dataset


class MoleculeGraphs(Dataset):
    def __init__(self, count, seed, cutoff=0.45):
        rng = random.Random(seed)
        gen = torch.Generator().manual_seed(seed)
        self.items = []
        for _ in range(count):
            n = rng.randint(8, 16)
            pos = torch.rand(n, 2, generator=gen)
            kind = torch.randint(0, 10, (n,), generator=gen)
            x = torch.cat([torch.nn.functional.one_hot(kind, 10).float(), pos], dim=1)
            dist = torch.cdist(pos, pos)
            adj = (dist < cutoff) & ~torch.eye(n, dtype=torch.bool)
            src, dst = adj.nonzero(as_tuple=True)
            y = adj.float().sum() / n + 0.1 * (kind == 0).sum()
            self.items.append((x, src, dst, y))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate_graphs(items):
    xs, srcs, dsts, graph, ys = [], [], [], [], []
    offset = 0
    for g, (x, src, dst, y) in enumerate(items):
        xs.append(x)
        srcs.append(src + offset)
        dsts.append(dst + offset)
        graph.append(torch.full((len(x),), g))
        ys.append(y)
        offset += len(x)
    return {
        "x": torch.cat(xs),
        "src": torch.cat(srcs),
        "dst": torch.cat(dsts),
        "graph": torch.cat(graph),
        "y": torch.stack(ys),
        "num_graphs": len(items),
    }
