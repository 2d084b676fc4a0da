import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader

from data import Assays


def masked_mse(pred, target):
    known = ~torch.isnan(target)
    if not known.any():
        return pred.sum() * 0.0
    return ((pred[known] - target[known]) ** 2).mean()


def per_task_rmse(pred, target):
    out = []
    for t in range(target.shape[1]):
        known = ~target[:, t].isnan()
        out.append((pred[known, t] - target[known, t]).pow(2).mean().sqrt().item())
    return out


def evaluate(model, loader):
    model.eval()
    preds, targets = [], []
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
        for x, y in loader:
            preds.append(model(x).float())
            targets.append(y)
    model.train()
    return per_task_rmse(torch.cat(preds), torch.cat(targets))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=6)
    ap.add_argument("--lr", type=float, default=2e-3)
    args = ap.parse_args()
    torch.manual_seed(0)
    train = DataLoader(Assays(1500), batch_size=50, shuffle=True, generator=torch.Generator().manual_seed(0))
    valid = DataLoader(Assays(300, seed=1), batch_size=100)
    model = nn.Sequential(nn.Linear(128, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 5))
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-3)
    best = float("inf")
    for epoch in range(args.epochs):
        total = 0.0
        for x, y in train:
            opt.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                pred = model(x)
            loss = masked_mse(pred.float(), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            total += loss.item()
        rmse = evaluate(model, valid)
        mean = sum(rmse) / len(rmse)
        best = min(best, mean)
        print(f"epoch {epoch}: train {total / len(train):.4f} valid rmse {' '.join(f'{r:.3f}' for r in rmse)} best {best:.3f}")


if __name__ == "__main__":
    main()
