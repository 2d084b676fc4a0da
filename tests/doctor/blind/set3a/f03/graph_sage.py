import argparse

import torch
from torch import nn
import torch.nn.functional as F

parser = argparse.ArgumentParser(description="GraphSAGE with sampled neighbours (sum aggregator)")
parser.add_argument("--nodes", type=int, default=1500)
parser.add_argument("--feat", type=int, default=32)
parser.add_argument("--hidden", type=int, default=48)
parser.add_argument("--fanout", type=int, default=8)
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--amp-dtype", choices=["float16", "bfloat16"], default="float16")
args = parser.parse_args()
AMP_DTYPE = getattr(torch, args.amp_dtype)


def citation_like_graph(n, seed=5):
    """Preferential attachment, directed towards the earlier node, then symmetrised."""
    g = torch.Generator().manual_seed(seed)
    comm = torch.randint(0, 5, (n,), generator=g)
    src, dst = [], []
    for v in range(5, n):
        for _ in range(6):
            for _ in range(4):
                u = int(torch.rand(1, generator=g) ** 6 * v)
                if comm[u] == comm[v]:
                    break
            src.append(v)
            dst.append(u)
    e = torch.tensor([src, dst])
    e = torch.cat([e, e.flip(0)], 1)
    centers = torch.randn(5, args.feat, generator=g) * 4
    # word counts of the papers
    rate = (centers[comm].abs() * 14 + 4) * (0.5 + torch.rand(n, 1, generator=g))
    x = torch.poisson(rate, generator=g)
    return x, comm, e


class SageLayer(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.self_lin = nn.Linear(cin, cout)
        self.nbr_lin = nn.Linear(cin, cout, bias=False)
        self.norm = nn.LayerNorm(cout)

    def forward(self, x_self, x_all, adj):
        agg = adj @ x_all
        return self.norm(self.self_lin(x_self) + self.nbr_lin(agg))


class Sage(nn.Module):
    def __init__(self, cin, hid, classes):
        super().__init__()
        self.l1 = SageLayer(cin, hid)
        self.l2 = SageLayer(hid, hid)
        self.head = nn.Linear(hid, classes)

    def forward(self, x, adj):
        h = F.relu(self.l1(x, x, adj))
        h = F.relu(self.l2(h, h, adj))
        return self.head(h)


def sampled_adjacency(nbrs, nodes, fanout):
    """Dense adjacency of the subgraph around the seed nodes, a few neighbours each."""
    keep = set(nodes.tolist())
    picks = {}
    for v in nodes.tolist():
        p = nbrs[v][torch.randperm(len(nbrs[v]))[:fanout]].tolist()
        picks[v] = p
        keep.update(p)
    ids = sorted(keep)
    pos = {v: k for k, v in enumerate(ids)}
    adj = torch.zeros(len(ids), len(ids))
    for v, p in picks.items():
        for u in p:
            adj[pos[v], pos[u]] = 1
    return torch.tensor(ids), adj, torch.tensor([pos[v] for v in nodes.tolist()])


def main():
    torch.manual_seed(0)
    x, y, e = citation_like_graph(args.nodes)
    n = args.nodes
    nbrs = [e[1][e[0] == v] for v in range(n)]
    full = torch.zeros(n, n)
    full[e[0], e[1]] = 1
    perm = torch.randperm(n)
    train_ids, val_ids = perm[: n // 2], perm[n // 2:]

    model = Sage(args.feat, args.hidden, 5)
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    scaler = torch.amp.GradScaler("cpu", enabled=AMP_DTYPE is torch.float16)

    for epoch in range(args.epochs):
        model.train()
        tot = 0.0
        for seeds in train_ids[torch.randperm(len(train_ids))].split(96):
            ids, adj, where = sampled_adjacency(nbrs, seeds, args.fanout)
            opt.zero_grad()
            with torch.autocast("cpu", dtype=AMP_DTYPE):
                logits = model(x[ids], adj)[where]
                loss = F.cross_entropy(logits, y[seeds])
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            tot += loss.item() * len(seeds)

        model.eval()
        with torch.inference_mode(), torch.autocast("cpu", dtype=AMP_DTYPE):
            logits = model(x, full)
            val_loss = F.cross_entropy(logits[val_ids], y[val_ids])
            acc = (logits[val_ids].argmax(1) == y[val_ids]).float().mean()
        print(f"epoch {epoch}: train {tot / len(train_ids):.4f}  val {val_loss.item():.4f}  acc {acc.item():.3f}")


main()
