import torch


class DropEdge:
    """Removes a growing share of undirected edges (epoch-wise schedule)."""

    def __init__(self, adj, p_max, ramp, seed=0):
        iu = torch.triu_indices(len(adj), len(adj), offset=1)
        self.edges = iu[:, adj[iu[0], iu[1]]]
        self.n, self.p_max, self.ramp = len(adj), p_max, ramp
        self.g = torch.Generator().manual_seed(seed)

    def rate(self, epoch):
        return self.p_max * min(1.0, epoch / self.ramp)

    def __call__(self, epoch):
        keep = torch.rand(self.edges.size(1), generator=self.g) >= self.rate(epoch)
        u, v = self.edges[:, keep]
        adj = torch.zeros(self.n, self.n, dtype=torch.bool)
        adj[u, v] = True
        adj[v, u] = True
        return adj
