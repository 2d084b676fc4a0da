import torch


class NeighbourSampler:
    """Two-hop blocks with a fixed fan-out."""

    def __init__(self, graph, idx, batch_size, fanout=(8, 8), seed=0):
        self.graph, self.idx, self.bs, self.fanout = graph, idx, batch_size, fanout
        self.gen = torch.Generator().manual_seed(seed)

    def __len__(self):
        return (len(self.idx) + self.bs - 1) // self.bs

    def _hop(self, nodes, k):
        src, dst = [], []
        for i, v in enumerate(nodes.tolist()):
            nb = self.graph.neighbours(v)
            if len(nb) > k:
                nb = nb[torch.randperm(len(nb), generator=self.gen)[:k]]
            src.append(nb)
            dst.append(torch.full((len(nb),), i))
        src, dst = torch.cat(src), torch.cat(dst)
        uniq = torch.unique(torch.cat([nodes, src]))
        rest = uniq[~torch.isin(uniq, nodes)]
        all_nodes = torch.cat([nodes, rest])
        lookup = torch.full((self.graph.n,), -1)
        lookup[all_nodes] = torch.arange(len(all_nodes))
        return all_nodes, lookup[src], dst

    def __iter__(self):
        perm = self.idx[torch.randperm(len(self.idx), generator=self.gen)]
        for seeds in perm.split(self.bs):
            n1, s2, d2 = self._hop(seeds, self.fanout[1])
            n0, s1, d1 = self._hop(n1, self.fanout[0])
            yield n0, [(s1, d1, len(n1)), (s2, d2, len(seeds))], seeds
