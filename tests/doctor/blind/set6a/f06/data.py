import torch


class PKSampler:
    """P identities with K shots each; some identities only have one shot and are repeated."""

    def __init__(self, n_ids=60, dim=32, p=8, k=4, seed=2):
        self.g = torch.Generator().manual_seed(seed)
        self.p, self.k = p, k
        centers = torch.randn(n_ids, dim, generator=self.g)
        self.shots = []
        for i in range(n_ids):
            n = 1 if i >= 57 else 6
            self.shots.append(centers[i] + 0.6 * torch.randn(n, dim, generator=self.g))

    def __call__(self):
        ids = torch.randperm(len(self.shots), generator=self.g)[: self.p].tolist()
        xs, ys = [], []
        for i in ids:
            pool = self.shots[i]
            pick = torch.randint(0, len(pool), (self.k,), generator=self.g) if len(pool) < self.k else \
                torch.randperm(len(pool), generator=self.g)[: self.k]
            xs.append(pool[pick])
            ys += [i] * self.k
        return torch.cat(xs), torch.tensor(ys)
