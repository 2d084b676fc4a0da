"""Churn model for a branch, tabular residual MLP."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn

from table import COLUMNS, Standardizer, load_customers


class ResBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.a = nn.Linear(width, 2 * width)
        self.b = nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.b(F.relu(self.a(self.norm(x.float()))))


class ChurnNet(nn.Module):
    def __init__(self, n_in, width=64, blocks=2):
        super().__init__()
        self.stem = nn.Linear(n_in, width)
        self.blocks = nn.Sequential(*[ResBlock(width) for _ in range(blocks)])
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x))).squeeze(-1)


def prepare(frac=0.8):
    x, y = load_customers()
    k = int(len(x) * frac)
    scale = Standardizer().fit(x[:k])
    t = torch.from_numpy
    return t(scale(x[:k])), t(y[:k]), t(scale(x[k:])), t(y[k:])


def validate(net, x, y):
    net.eval()
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
        out = net(x).float()
    return F.binary_cross_entropy_with_logits(out, y).item(), ((out > 0) == (y > 0.5)).float().mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=6)
    ap.add_argument("--batch-size", type=int, default=128)
    ap.add_argument("--lr", type=float, default=1e-3)
    args = ap.parse_args()
    torch.manual_seed(0)
    xt, yt, xv, yv = prepare()
    print("rows", len(xt), "columns", len(COLUMNS), "churn rate %.3f" % yt.mean())
    net = ChurnNet(len(COLUMNS))
    opt = torch.optim.AdamW(net.parameters(), lr=args.lr, weight_decay=1e-2)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 10)
    for epoch in range(args.epochs):
        net.train()
        running = 0.0
        chunks = torch.randperm(len(xt)).split(args.batch_size)
        for idx in chunks:
            opt.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                logit = net(xt[idx])
                loss = F.binary_cross_entropy_with_logits(logit, yt[idx])
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            scaler.step(opt)
            scaler.update()
            running += loss.item()
        vl, va = validate(net, xv, yv)
        print(f"epoch {epoch}: train {running / len(chunks):.4f} val {vl:.4f} acc {va:.3f}")


if __name__ == "__main__":
    main()
