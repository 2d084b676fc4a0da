"""Node classification on a citation-like graph with DropEdge and dense attention layers."""
import argparse
import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

NEG = float("-inf")


def make_graph(n=160, classes=4, dim=24, degree=4, seed=0):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, classes, (n,), generator=g)
    proto = torch.randn(classes, dim, generator=g)
    x = proto[y] + 1.2 * torch.randn(n, dim, generator=g)
    same = (y[:, None] == y[None, :]).float()
    prob = (0.9 * same + 0.1) * degree / (n / classes)
    upper = torch.triu(torch.rand(n, n, generator=g) < prob, 1)
    adj = upper | upper.T
    # everyone has at least a few neighbours
    for i in range(n):
        while adj[i].sum() < 3:
            j = int(torch.randint(0, n, (1,), generator=g))
            if j != i:
                adj[i, j] = adj[j, i] = True
    return x, y, adj


def drop_edges(adj, rate, gen):
    keep = torch.rand(adj.shape, generator=gen) >= rate
    keep = torch.triu(keep, 1)
    return adj & (keep | keep.T)


class GraphAttention(nn.Module):
    def __init__(self, cin, cout, heads):
        super().__init__()
        self.heads, self.width = heads, cout // heads
        self.query = nn.Linear(cin, cout)
        self.key = nn.Linear(cin, cout)
        self.value = nn.Linear(cin, cout)
        self.skip = nn.Linear(cin, cout)

    def split(self, h):
        return h.unflatten(-1, (self.heads, self.width)).transpose(0, 1)

    def forward(self, h, adj):
        q, k, v = (self.split(f(h)) for f in (self.query, self.key, self.value))
        score = q @ k.transpose(-1, -2) / math.sqrt(self.width)
        score = score.masked_fill(~adj, NEG)
        alpha = F.softmax(score, dim=-1)
        return (alpha @ v).transpose(0, 1).flatten(1) + self.skip(h)


class Net(nn.Module):
    def __init__(self, dim, classes, hidden=16, heads=2):
        super().__init__()
        self.a = GraphAttention(dim, hidden, heads)
        self.b = GraphAttention(hidden, hidden, heads)
        self.out = nn.Linear(hidden, classes)

    def forward(self, x, adj):
        h = F.elu(self.a(x, adj))
        h = F.elu(self.b(h, adj))
        return self.out(h)


def drop_rate(epoch, total, peak):
    """DropEdge is warmed up over the first half of the training."""
    return peak * min(1.0, epoch / (0.5 * total))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=40)
    ap.add_argument("--peak-drop", type=float, default=0.5)
    args = ap.parse_args()
    torch.manual_seed(0)
    x, y, adj = make_graph()
    split = torch.rand(len(y)) < 0.6
    net = Net(x.shape[1], int(y.max()) + 1)
    opt = torch.optim.AdamW(net.parameters(), lr=5e-3, weight_decay=1e-2)
    scaler = torch.amp.GradScaler("cpu", init_scale=2048.0)
    cast = partial(torch.autocast, "cpu", dtype=torch.float16)
    gen = torch.Generator().manual_seed(7)

    for epoch in range(args.epochs):
        net.train()
        view = drop_edges(adj, drop_rate(epoch, args.epochs, args.peak_drop), gen)
        with cast():
            logits = net(x, view)
            loss = F.cross_entropy(logits[split], y[split])
        opt.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        if epoch % 5 == 4:
            net.eval()
            with torch.inference_mode(), cast():
                hit = net(x, adj).argmax(-1) == y
            print(f"epoch {epoch + 1:3d} loss {loss.item():.3f} "
                  f"train {hit[split].float().mean():.3f} test {hit[~split].float().mean():.3f}")


if __name__ == "__main__":
    main()
