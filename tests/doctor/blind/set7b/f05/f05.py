"""GAT-style node classification with edge dropout as augmentation (dense adjacency)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def sbm(n_per_block=40, blocks=3, p_in=0.22, p_out=0.01, seed=1):
    g = torch.Generator().manual_seed(seed)
    n = n_per_block * blocks
    lab = torch.arange(blocks).repeat_interleave(n_per_block)
    prob = torch.where(lab[:, None] == lab[None, :], p_in, p_out)
    up = torch.triu(torch.rand(n, n, generator=g) < prob, diagonal=1)
    adj = up | up.T
    deg0 = (adj.sum(1) < 3).nonzero().flatten().tolist()
    for i in deg0:
        friends = (i + torch.tensor([1, 2, 3])) % n
        adj[i, friends] = True
        adj[friends, i] = True
    feats = F.one_hot(lab, blocks).float() + 1.2 * torch.randn(n, blocks, generator=g)
    return feats, adj, lab


def drop_edges(adj, p):
    if p == 0:
        return adj
    keep = torch.triu(torch.rand(adj.shape) > p, diagonal=1)
    return adj & (keep | keep.T)


class GATLayer(nn.Module):
    def __init__(self, d_in, d_out, heads):
        super().__init__()
        self.h, self.d = heads, d_out
        self.lin = nn.Linear(d_in, heads * d_out, bias=False)
        self.a_src = nn.Parameter(torch.randn(heads, d_out) * 0.3)
        self.a_dst = nn.Parameter(torch.randn(heads, d_out) * 0.3)

    def forward(self, x, adj):
        z = self.lin(x).view(-1, self.h, self.d)
        s = (z * self.a_src).sum(-1)
        t = (z * self.a_dst).sum(-1)
        e = F.leaky_relu(s[:, None, :] + t[None, :, :], 0.2)
        e = e.masked_fill(~adj[:, :, None], float("-inf"))
        alpha = F.softmax(e, dim=1)
        out = torch.einsum("ijh,jhd->ihd", alpha, z)
        return out.flatten(1)


class GAT(nn.Module):
    def __init__(self, d_in, classes):
        super().__init__()
        self.g1 = GATLayer(d_in, 8, 4)
        self.g2 = GATLayer(32, classes, 1)

    def forward(self, x, adj):
        h = F.elu(self.g1(x, adj))
        return self.g2(h, adj)


def train(seed=0, steps=40, edge_drop=0.3):
    torch.manual_seed(seed)
    x, adj, y = sbm()
    train_idx = torch.randperm(len(y))[:45]
    net = GAT(x.size(1), 3)
    opt = torch.optim.Adam(net.parameters(), lr=1e-2, weight_decay=5e-4)
    print("min degree", int(adj.sum(1).min()))
    for step in range(steps):
        net.train()
        a = drop_edges(adj, edge_drop)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = net(x, a)
        loss = F.cross_entropy(logits[train_idx].float(), y[train_idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 4 == 0:
            net.eval()
            with torch.no_grad():
                acc = (net(x, adj).argmax(1) == y).float().mean()
            print(f"{step:3d} loss {loss.item():.4f} acc {acc:.3f}")


train()
