"""Click prediction: embeddings + dense features, wide and deep."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from readlog import load, synthetic_log


class WideDeep(nn.Module):
    def __init__(self, users=200, items=100, dense=3, dim=8):
        super().__init__()
        self.user = nn.Embedding(users, dim)
        self.item = nn.Embedding(items, dim)
        self.norm = nn.BatchNorm1d(dense)
        self.deep = nn.Sequential(nn.Linear(2 * dim + dense, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1))
        self.wide = nn.Linear(dense, 1)

    def forward(self, ids, dense):
        d = self.norm(dense)
        x = torch.cat([self.user(ids[:, 0]), self.item(ids[:, 1]), d], -1)
        return (self.deep(x) + self.wide(d)).squeeze(-1)


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    total, hits, n = 0.0, 0, 0
    for ids, dense, y in loader:
        with torch.autocast("cpu", dtype=torch.float16):
            z = model(ids, dense)
        total += F.binary_cross_entropy_with_logits(z.float(), y, reduction="sum").item()
        hits += ((z > 0).float() == y).sum().item()
        n += len(y)
    model.train()
    return total / n, hits / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--batch-size", type=int, default=64)
    ap.add_argument("--lr", type=float, default=3e-3)
    args = ap.parse_args()
    torch.manual_seed(0)

    train = DataLoader(TensorDataset(*load(synthetic_log(4096, seed=7))), args.batch_size, shuffle=True)
    test = DataLoader(TensorDataset(*load(synthetic_log(1024, seed=8))), 256)
    model = WideDeep()
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu")

    for epoch in range(args.epochs):
        window = []
        for step, (ids, dense, y) in enumerate(train):
            opt.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.float16):
                loss = F.binary_cross_entropy_with_logits(model(ids, dense), y)
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            window.append(loss.item())
            if step % 16 == 15:
                print(f"epoch {epoch} step {step} loss {window[-1]:.4f} scale {scaler.get_scale():g}")
        test_loss, acc = evaluate(model, test)
        print(f"epoch {epoch} test loss {test_loss:.4f} accuracy {acc:.3f}")


if __name__ == "__main__":
    main()
