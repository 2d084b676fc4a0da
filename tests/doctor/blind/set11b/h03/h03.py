"""Graph attention network; isolated nodes occur, evaluation runs in float32."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn


def random_graph(n, classes, feats, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(classes, (n,), generator=g)
    p = torch.where(y[:, None] == y[None], 0.025, 0.004)
    a = (torch.rand(n, n, generator=g) < p).float().triu(1)
    a = a + a.t()
    lonely = torch.rand(n, generator=g) < 0.05
    a[lonely] = 0
    a[:, lonely] = 0
    x = torch.randn(classes, feats, generator=g)[y] * 0.7 + torch.randn(n, feats, generator=g)
    return x, a, y


def normalise(adj):
    inv = adj.sum(1).pow(-0.5)
    inv.masked_fill_(inv == float("inf"), 0.0)
    return inv[:, None] * adj * inv[None, :]


class GATLayer(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.w = nn.Linear(i, o)
        self.src, self.dst = nn.Linear(o, 1), nn.Linear(o, 1)

    def forward(self, x, adj):
        h = self.w(x)
        e = F.leaky_relu(self.src(h) + self.dst(h).t(), 0.2)
        e = torch.where(adj > 0, e, float("-inf"))
        alpha = torch.softmax(e, dim=-1)
        alpha = torch.where((adj > 0).any(1, keepdim=True), alpha, torch.zeros_like(alpha))
        return h + alpha @ h


class Net(nn.Module):
    def __init__(self, feats, hidden, classes):
        super().__init__()
        self.inp = nn.Linear(2 * feats, hidden)
        self.gat = GATLayer(hidden, hidden)
        self.out = nn.Linear(hidden, classes)

    def forward(self, x, adj, prop):
        h = F.elu(self.inp(torch.cat([x, prop @ x], -1)))
        adj = adj + torch.eye(adj.size(0))
        return self.out(F.elu(self.gat(h, adj)))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--nodes", type=int, default=400)
    ap.add_argument("--epochs", type=int, default=30)
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--val-every", type=int, default=5)
    args = ap.parse_args()
    torch.manual_seed(2)
    x, adj, y = random_graph(args.nodes, 4, 16, seed=2)
    prop = normalise(adj)
    train_mask = torch.zeros(args.nodes, dtype=torch.bool)
    train_mask[: args.nodes // 2] = True
    model = Net(16, 32, 4)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=5e-4)
    scaler = torch.amp.GradScaler("cpu")
    best = float("inf")

    for epoch in range(args.epochs):
        model.train()
        opt.zero_grad()
        with torch.autocast(device_type="cpu", dtype=torch.float16):
            logits = model(x, adj, prop)
        loss = F.cross_entropy(logits[train_mask].float(), y[train_mask])
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        if epoch % args.val_every == args.val_every - 1:
            model.eval()
            with torch.no_grad():
                z = model(x, adj, prop)
                val = F.cross_entropy(z[~train_mask], y[~train_mask]).item()
                acc = (z.argmax(-1) == y)[~train_mask].float().mean().item()
            best = min(best, val)
            print(f"epoch {epoch + 1} loss {loss.item():.4f} val {val:.4f} best {best:.4f} acc {acc:.3f} "
                  f"isolated {int((adj.sum(1) == 0).sum())} scale {scaler.get_scale():g}")


if __name__ == "__main__":
    main()
