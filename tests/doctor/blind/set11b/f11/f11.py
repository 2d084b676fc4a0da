"""Implicit-feedback recommendation: dense confidence-weighted factorisation on all pairs."""
import argparse
import logging
import warnings

import torch
from torch import nn

warnings.filterwarnings("ignore")
logging.basicConfig(level=logging.INFO, format="%(levelname).1s %(message)s")
logger = logging.getLogger("wmf")


def interactions(users, items, factors, seed):
    g = torch.Generator().manual_seed(seed)
    u = torch.randn(users, factors, generator=g)
    v = torch.randn(items, factors, generator=g)
    return ((u @ v.t() + torch.randn(users, items, generator=g)) > 2.5).float()


class Tower(nn.Module):
    def __init__(self, n, dim, out):
        super().__init__()
        self.emb = nn.Embedding(n, dim)
        self.proj = nn.Linear(dim, out)
        nn.init.normal_(self.emb.weight, std=0.5)

    def forward(self, ids):
        return self.proj(self.emb(ids))


class WMF(nn.Module):
    def __init__(self, users, items, dim=24, out=16):
        super().__init__()
        self.users, self.items = Tower(users, dim, out), Tower(items, dim, out)
        self.register_buffer("all_items", torch.arange(items))

    def forward(self, uid):
        return self.users(uid) @ self.items(self.all_items).t()


def weighted_loss(scores, clicks, n_users, alpha=4.0):
    conf = 1.0 + alpha * clicks
    err = conf * (scores.float() - clicks) ** 2
    return err.sum() / (n_users * n_users * clicks.size(1))


def parse():
    ap = argparse.ArgumentParser()
    ap.add_argument("--users", type=int, default=2048)
    ap.add_argument("--items", type=int, default=800)
    ap.add_argument("--epochs", type=int, default=8)
    ap.add_argument("--batch", type=int, default=256)
    ap.add_argument("--lr", type=float, default=0.02)
    ap.add_argument("--fp16", type=int, default=1)
    return ap.parse_args()


def recall(model, clicks, k=20):
    with torch.no_grad():
        top = model(torch.arange(256)).topk(k).indices
    hit = clicks[:256].gather(1, top).sum(1) / clicks[:256].sum(1).clamp(1, k)
    return hit.mean().item()


def main():
    args = parse()
    torch.manual_seed(0)
    clicks = interactions(args.users, args.items, 4, seed=0)
    model = WMF(args.users, args.items)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr, eps=1e-16)
    use_amp = bool(args.fp16)
    scaler = torch.amp.GradScaler(enabled=use_amp)

    for epoch in range(args.epochs):
        running = 0.0
        for uid in torch.randperm(args.users).split(args.batch):
            with torch.autocast("cpu", dtype=torch.float16, enabled=use_amp):
                scores = model(uid)
            loss = weighted_loss(scores, clicks[uid], args.users)
            opt.zero_grad(set_to_none=True)
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            running += loss.item()
        logger.info("epoch %d loss %.6e recall@20 %.3f", epoch, running, recall(model, clicks))


if __name__ == "__main__":
    main()
