import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(11)
torch.set_num_threads(1)


class SBM:
    """Stochastic block model with node features; edges split for a later link prediction task."""

    def __init__(self, n=300, k=4, p_in=0.03, p_out=0.003, feat=16):
        g = torch.Generator().manual_seed(5)
        self.y = torch.randint(0, k, (n,), generator=g)
        same = self.y[:, None] == self.y[None]
        prob = torch.where(same, torch.tensor(p_in), torch.tensor(p_out))
        up = torch.triu(torch.rand(n, n, generator=g) < prob, diagonal=1)
        edges = up.nonzero()
        # every node gets at least one neighbour in its own block
        deg = torch.bincount(edges.flatten(), minlength=n)
        extra = []
        for i in (deg == 0).nonzero().flatten().tolist():
            mates = (same[i]).nonzero().flatten()
            mates = mates[mates != i]
            extra.append([i, int(mates[0])])
        if extra:
            edges = torch.cat([edges, torch.tensor(extra)])
        perm = torch.randperm(len(edges), generator=g)
        n_val = int(0.2 * len(edges))
        self.val_edges = edges[perm[:n_val]]
        self.train_edges = edges[perm[n_val:]]
        centres = torch.randn(k, feat, generator=g)
        self.x = centres[self.y] + 1.5 * torch.randn(n, feat, generator=g)
        self.n, self.k = n, k

    def adjacency(self, edges):
        a = torch.zeros(self.n, self.n, dtype=torch.bool)
        a[edges[:, 0], edges[:, 1]] = True
        a[edges[:, 1], edges[:, 0]] = True
        return a


class GATHead(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.w = nn.Linear(d_in, d_out, bias=False)
        self.a_src = nn.Linear(d_out, 1, bias=False)
        self.a_dst = nn.Linear(d_out, 1, bias=False)

    def forward(self, x, adj):
        h = self.w(x)
        e = F.leaky_relu(self.a_src(h) + self.a_dst(h).t(), 0.2)
        e = e.masked_fill(~adj, float("-inf"))
        att = torch.softmax(e.float(), dim=-1)
        return att @ h


class GAT(nn.Module):
    def __init__(self, d_in, hid, k, heads=4):
        super().__init__()
        self.heads = nn.ModuleList(GATHead(d_in, hid) for _ in range(heads))
        self.out = GATHead(hid * heads, k)

    def forward(self, x, adj):
        h = torch.cat([F.elu(head(x, adj)) for head in self.heads], dim=-1)
        h = F.dropout(h, 0.2, self.training)
        return self.out(h, adj)


data = SBM()
full = data.adjacency(torch.cat([data.train_edges, data.val_edges]))
adj = data.adjacency(data.train_edges)
print("nodes", data.n, "train edges", len(data.train_edges), "min degree of the full graph", int(full.sum(1).min()))

model = GAT(16, 8, data.k)
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=5e-4)
idx = torch.randperm(data.n)
train_idx, test_idx = idx[:200], idx[200:]

for epoch in range(60):
    model.train()
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(data.x, adj)
    loss = F.cross_entropy(out.float()[train_idx], data.y[train_idx])
    loss.backward()
    optimizer.step()
    if epoch % 10 == 0:
        model.eval()
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            pred = model(data.x, adj).argmax(-1)
        acc = (pred[test_idx] == data.y[test_idx]).float().mean()
        print(f"epoch {epoch:03d} loss {loss.item():.4f} acc {acc.item():.3f}")
