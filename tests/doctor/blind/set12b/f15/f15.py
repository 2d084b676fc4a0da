"""Matrix-factorisation recommender: separate optimizers for tables and tower."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class Recommender(nn.Module):
    def __init__(self, users, items, dim=12):
        super().__init__()
        self.user = nn.Embedding(users, dim)
        self.item = nn.Embedding(items, dim)
        for table in (self.user, self.item):
            nn.init.normal_(table.weight, std=0.3)
        self.tower = nn.Sequential(nn.Linear(2 * dim, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, u, i):
        a, b = self.user(u), self.item(i)
        return (a * b).sum(-1) + self.tower(torch.cat([a, b], -1)).squeeze(-1)


def ratings(users, items, n):
    p, q = torch.randn(users, 3), torch.randn(items, 3)
    u, i = torch.randint(0, users, (n,)), torch.randint(0, items, (n,))
    return u, i, (p[u] * q[i]).sum(-1)


def train_step(model, opts, scaler, u, i, r, clip):
    table_opt, tower_opt = opts
    for opt in opts:
        opt.zero_grad(set_to_none=True)
    with torch.autocast("cpu", dtype=torch.float16):
        pred = model(u, i)
    loss = F.mse_loss(pred.float(), r)
    scaler.scale(loss).backward()
    scaler.unscale_(table_opt)
    scaler.unscale_(tower_opt)
    norm = nn.utils.clip_grad_norm_(model.parameters(), clip)
    scaler.step(tower_opt)
    scaler.update()
    scaler.step(table_opt)
    scaler.update()
    return loss.item(), norm.item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--users", type=int, default=40)
    ap.add_argument("--items", type=int, default=30)
    ap.add_argument("--epochs", type=int, default=25)
    args = ap.parse_args()
    torch.manual_seed(12)
    u, i, r = ratings(args.users, args.items, 1024)
    model = Recommender(args.users, args.items)
    start = model.user.weight.detach().clone()
    tables = list(model.user.parameters()) + list(model.item.parameters())
    opts = [torch.optim.SGD(tables, lr=1.0, momentum=0.9),
            torch.optim.Adam(model.tower.parameters(), lr=3e-3)]
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
    for epoch in range(args.epochs):
        for idx in torch.randperm(1024).split(128):
            loss, norm = train_step(model, opts, scaler, u[idx], i[idx], r[idx], 5.0)
        if epoch % 4 == 0:
            moved = (model.user.weight - start).abs().max().item()
            print(f"epoch {epoch:2d} loss {loss:.4f} norm {norm:.3f} table moved {moved:.2e}")


if __name__ == "__main__":
    main()
