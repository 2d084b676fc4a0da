import torch


class CitationGraph:
    """Preferential attachment graph with bag-of-words counts."""

    def __init__(self, n=1600, m=4, n_words=64, n_cls=5, seed=3):
        g = torch.Generator().manual_seed(seed)
        targets = list(range(m))
        repeated, edges = list(range(m)), []
        for v in range(m, n):
            for u in set(targets):
                edges.append((v, u))
            repeated += list(targets) + [v] * m
            if v % 3:
                targets = [int(torch.randint(0, 3, (1,), generator=g))]
            else:
                targets = []
            while len(targets) < m:
                targets.append(repeated[int(torch.randint(0, len(repeated), (1,), generator=g))])
        e = torch.tensor(edges)
        self.src = torch.cat([e[:, 0], e[:, 1]])
        self.dst = torch.cat([e[:, 1], e[:, 0]])
        self.n = n
        self.y = torch.randint(0, n_cls, (n,), generator=g)
        topics = torch.rand(n_cls, n_words, generator=g) ** 3
        length = 4000 + 8000 * torch.rand(n, 1, generator=g)
        self.x = torch.poisson(topics[self.y] / topics[self.y].sum(1, keepdim=True) * length, generator=g)
        perm = torch.randperm(n, generator=g)
        self.train_idx, self.val_idx = perm[:1000], perm[1000:]
        order = torch.argsort(self.dst)
        self.nbr = self.src[order]
        self.deg = torch.bincount(self.dst, minlength=n)
        self.ptr = torch.cat([torch.zeros(1, dtype=torch.long), self.deg.cumsum(0)])

    def neighbours(self, v):
        return self.nbr[self.ptr[v]:self.ptr[v + 1]]
