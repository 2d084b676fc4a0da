import argparse
import math
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader

from data import CardData


class TabNet(nn.Module):
    def __init__(self, n_num, cards, dim=8, hid=96):
        super().__init__()
        self.embs = nn.ModuleList(nn.Embedding(c, dim) for c in cards)
        self.body = nn.Sequential(
            nn.Linear(n_num + dim * len(cards), hid), nn.LayerNorm(hid), nn.GELU(),
            nn.Linear(hid, hid), nn.LayerNorm(hid), nn.GELU())
        self.head = nn.Linear(hid, 1)

    def forward(self, num, cat):
        e = [emb(cat[:, i]) for i, emb in enumerate(self.embs)]
        return self.head(self.body(torch.cat([num] + e, 1))).squeeze(1)


def run_epoch(model, loader, loss_fn, opt, scaler, accum):
    total, n = 0.0, 0
    opt.zero_grad()
    for i, (num, cat, y) in enumerate(loader):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(num, cat), y)
        scaler.scale(loss / accum).backward()
        if (i + 1) % accum == 0:
            scaler.step(opt)
            scaler.update()
            opt.zero_grad()
        total, n = total + loss.item(), n + 1
    return total / n


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--rows", type=int, default=8000)
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--batch-size", type=int, default=200)
    p.add_argument("--accum", type=int, default=2)
    p.add_argument("--lr", type=float, default=2e-3)
    args = p.parse_args()
    torch.manual_seed(21)
    torch.set_num_threads(1)
    data = CardData(args.rows, seed=21)
    loader = DataLoader(data, args.batch_size, shuffle=True, drop_last=True)
    model = TabNet(4, (60, 12))
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024)
    loss_fn = nn.BCEWithLogitsLoss()
    for ep in range(args.epochs):
        loss = run_epoch(model, loader, loss_fn, opt, scaler, args.accum)
        if not math.isfinite(loss) and ep > 0:
            sys.exit(f"epoch {ep + 1}: bce {loss}, giving up")
        print(f"epoch {ep + 1}: bce {loss:.4f}, scale {scaler.get_scale():g}")
