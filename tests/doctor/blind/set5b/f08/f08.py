"""Matrix factorisation recommender with slow weights on top of SGD."""
import argparse
from collections import defaultdict

import torch
import torch.nn as nn


class SlowWeights:
    """k steps forward, one step back (Zhang et al. 2019)."""

    def __init__(self, inner, k=5, alpha=0.5):
        self.inner, self.k, self.alpha = inner, k, alpha
        self.param_groups = inner.param_groups
        self.state = defaultdict(dict)
        self.count = 0
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["slow"] = p.detach().clone()

    def zero_grad(self, set_to_none=True):
        self.inner.zero_grad(set_to_none=set_to_none)

    @torch.no_grad()
    def step(self):
        self.inner.step()
        self.count += 1
        if self.count % self.k == 0:
            for group in self.param_groups:
                for p in group["params"]:
                    slow = self.state[p]["slow"]
                    slow.lerp_(p, self.alpha)
                    p.copy_(slow)


class Recommender(nn.Module):
    def __init__(self, users, items, dim=24):
        super().__init__()
        self.u = nn.Embedding(users, dim)
        self.i = nn.Embedding(items, dim)
        self.mlp = nn.Sequential(nn.Linear(2 * dim, 48), nn.ReLU(), nn.Linear(48, 1))

    def forward(self, u, i):
        return self.mlp(torch.cat([self.u(u), self.i(i)], -1)).squeeze(-1)


def ratings(users, items, n, seed):
    g = torch.Generator().manual_seed(seed)
    taste = torch.randn(users, 4, generator=g)
    trait = torch.randn(items, 4, generator=g)
    u = torch.randint(0, users, (n,), generator=g)
    i = torch.randint(0, items, (n,), generator=g)
    r = (taste[u] * trait[i]).sum(-1) / 2 + 3.2 + 0.1 * torch.randn(n, generator=g)
    return u, i, r


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--users", type=int, default=60)
    ap.add_argument("--items", type=int, default=50)
    ap.add_argument("--lr", type=float, default=0.05)
    ap.add_argument("--clip", type=float, default=5.0)
    ap.add_argument("--epochs", type=int, default=6)
    args = ap.parse_args()

    torch.manual_seed(7)
    u, i, r = ratings(args.users, args.items, 4000, seed=3)
    model = Recommender(args.users, args.items)
    base = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    optimizer = SlowWeights(base)
    scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)

    for epoch in range(args.epochs):
        order = torch.randperm(len(r))
        total = 0.0
        for chunk in order.split(200):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                pred = model(u[chunk], i[chunk])
                loss = nn.functional.mse_loss(pred.float(), r[chunk])
            scaler.scale(loss).backward()
            scaler.unscale_(base)
            nn.utils.clip_grad_norm_(model.parameters(), args.clip)
            scaler.step(optimizer)
            scaler.update()
            total += loss.item() * len(chunk)
        print(f"epoch {epoch}  rmse {(total / len(r)) ** 0.5:.4f}")


if __name__ == "__main__":
    main()
