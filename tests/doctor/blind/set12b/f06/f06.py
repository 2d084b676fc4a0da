"""Churn prediction on a made-up customer table."""
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

COLUMNS = ["age", "tenure", "monthly", "calls", "region_tax", "score"]


def load_table(n=800):
    age = torch.randint(18, 80, (n,)).float()
    tenure = torch.randint(0, 120, (n,)).float()
    monthly = torch.rand(n) * 90 + 10
    calls = torch.randint(0, 9, (n,)).float()
    region_tax = torch.full((n,), 0.25)
    score = torch.randn(n) * 3
    table = torch.stack([age, tenure, monthly, calls, region_tax, score], 1)
    logit = 0.05 * (monthly - 50) - 0.04 * (tenure - 50) + 0.3 * (calls - 4)
    return table, (torch.rand(n) < torch.sigmoid(logit)).float()


def standardize(table):
    z = table.numpy()
    z = (z - z.mean(0)) / z.std(0)
    return torch.from_numpy(z)


class TabNet(nn.Module):
    def __init__(self, n_in, width=32):
        super().__init__()
        self.gate = nn.Sequential(nn.Linear(n_in, n_in), nn.Sigmoid())
        self.mlp = nn.Sequential(
            nn.Linear(n_in, width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(width, 1)
        )

    def forward(self, x):
        return self.mlp(x * self.gate(x)).squeeze(-1)


def evaluate(model, loader):
    model.eval()
    hit = n = 0
    with torch.no_grad():
        for x, y in loader:
            hit += ((model(x) > 0).float() == y).sum().item()
            n += len(y)
    model.train()
    return hit / n


def main(argv=None):
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--lr", type=float, default=3e-3)
    args = ap.parse_args(argv)
    torch.manual_seed(0)
    table, label = load_table()
    ds = TensorDataset(standardize(table), label)
    train, val = random_split(ds, [640, 160])
    tl, vl = DataLoader(train, 64, shuffle=True), DataLoader(val, 160)
    model = TabNet(len(COLUMNS))
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    crit = nn.BCEWithLogitsLoss()
    for epoch in range(args.epochs):
        total = 0.0
        for x, y in tl:
            opt.zero_grad()
            loss = crit(model(x), y)
            loss.backward()
            opt.step()
            total += loss.item() * len(y)
        print(f"epoch {epoch} train {total / len(train):.4f} val acc {evaluate(model, vl):.3f}")


if __name__ == "__main__":
    main()
