import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def make_graph(n=300, n_classes=4, p_in=0.02, p_out=0.002, seed=7):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, n_classes, (n,), generator=g)
    same = y[:, None] == y[None, :]
    prob = torch.where(same, torch.tensor(p_in), torch.tensor(p_out))
    adj = torch.rand(n, n, generator=g) < prob
    adj = adj.triu(1)
    adj = adj | adj.t()
    x = F.one_hot(y, n_classes).float() + 1.2 * torch.randn(n, n_classes, generator=g)
    x = torch.cat([x, torch.randn(n, 12, generator=g)], dim=1)
    perm = torch.randperm(n, generator=g)
    return x, adj, y, perm[: n // 2], perm[n // 2:]


class GraphAttention(nn.Module):
    def __init__(self, d_in, d_out, heads=4):
        super().__init__()
        self.heads, self.dk = heads, d_out // heads
        self.q = nn.Linear(d_in, d_out)
        self.k = nn.Linear(d_in, d_out)
        self.v = nn.Linear(d_in, d_out)
        self.skip = nn.Linear(d_in, d_out)

    def forward(self, x, adj):
        n = x.shape[0]
        q, k, v = (f(x).view(n, self.heads, self.dk).transpose(0, 1) for f in (self.q, self.k, self.v))
        scores = q @ k.transpose(1, 2) / math.sqrt(self.dk)
        scores = scores.masked_fill(~adj, float("-inf"))
        attn = F.softmax(scores, dim=-1)
        out = (attn @ v).transpose(0, 1).reshape(n, -1)
        return out + self.skip(x)


class GAT(nn.Module):
    def __init__(self, d_in, hidden, n_classes, dropout=0.2):
        super().__init__()
        self.c1 = GraphAttention(d_in, hidden)
        self.c2 = GraphAttention(hidden, hidden)
        self.out = nn.Linear(hidden, n_classes)
        self.dropout = dropout

    def forward(self, x, adj):
        h = F.dropout(F.elu(self.c1(x, adj)), self.dropout, self.training)
        h = F.elu(self.c2(h, adj))
        return self.out(h)


def accuracy(logits, y):
    return (logits.argmax(-1) == y).float().mean().item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=40)
    p.add_argument("--hidden", type=int, default=32)
    p.add_argument("--lr", type=float, default=5e-3)
    p.add_argument("--dtype", choices=["bfloat16", "float16"], default="bfloat16")
    args = p.parse_args()
    torch.manual_seed(0)

    x, adj, y, train_idx, test_idx = make_graph()
    print(f"{len(y)} nodes, {int(adj.sum()) // 2} edges")
    model = GAT(x.shape[1], args.hidden, 4)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=5e-4)
    dtype = getattr(torch, args.dtype)

    for epoch in range(1, args.epochs + 1):
        model.train()
        opt.zero_grad()
        with torch.autocast("cpu", dtype=dtype):
            logits = model(x, adj)
            loss = F.cross_entropy(logits[train_idx], y[train_idx])
        loss.backward()
        opt.step()
        if epoch % 10 == 0 or epoch == 1:
            model.eval()
            with torch.no_grad(), torch.autocast("cpu", dtype=dtype):
                logits = model(x, adj)
            print(f"epoch {epoch:3d} loss {loss.item():.4f} test acc {accuracy(logits[test_idx], y[test_idx]):.3f}")


if __name__ == "__main__":
    main()
