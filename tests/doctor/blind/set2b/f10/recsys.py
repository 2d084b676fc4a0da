import torch
import torch.nn as nn
import torch.nn.functional as F


class Tables(nn.Module):
    def __init__(self, sizes, dim):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(s, dim, mode="sum") for s in sizes)
        for t in self.tables:
            nn.init.uniform_(t.weight, -1 / t.num_embeddings ** 0.5, 1 / t.num_embeddings ** 0.5)

    def forward(self, cats):
        return [t(c) for t, c in zip(self.tables, cats)]


class DotInteraction(nn.Module):
    def forward(self, dense, sparse):
        z = torch.stack([dense] + [s.to(dense.dtype) for s in sparse], 1)
        s = torch.bmm(z, z.transpose(1, 2))
        i, j = torch.tril_indices(z.size(1), z.size(1), -1)
        return torch.cat([dense, s[:, i, j]], 1)


class ClickModel(nn.Module):
    def __init__(self, sizes, n_dense=13, dim=16):
        super().__init__()
        self.sparse = Tables(sizes, dim)
        self.bottom = nn.Sequential(nn.Linear(n_dense, 32), nn.ReLU(), nn.Linear(32, dim), nn.ReLU())
        n = len(sizes) + 1
        self.inter = DotInteraction()
        self.top = nn.Sequential(nn.Linear(dim + n * (n - 1) // 2, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, dense, cats):
        return self.top(self.inter(self.bottom(dense), self.sparse(cats))).squeeze(1)


class ClickLog:
    """Made-up impressions with a planted low-rank preference."""

    def __init__(self, sizes, seed=0):
        self.g = torch.Generator().manual_seed(seed)
        self.sizes = sizes
        self.latent = [torch.randn(s, 4, generator=self.g) for s in sizes]
        self.w = torch.randn(13, generator=self.g) * 0.3

    def batch(self, n):
        dense = torch.randn(n, 13, generator=self.g)
        cats = [torch.randint(0, s, (n, 1), generator=self.g) for s in self.sizes]
        lat = [l[c[:, 0]] for l, c in zip(self.latent, cats)]
        score = (lat[0] * lat[1]).sum(1) + (lat[1] * lat[2]).sum(1) + dense @ self.w
        return dense, cats, (torch.rand(n, generator=self.g) < torch.sigmoid(score)).float()
