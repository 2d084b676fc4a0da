import argparse

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

from model import ReviewClassifier
from reviews import Reviews, Vocab, collate, write_reviews


def accuracy(model, loader):
    model.eval()
    hit = n = 0
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
        for ids, y in loader:
            hit += (model(ids).argmax(-1) == y).sum().item()
            n += len(y)
    model.train()
    return hit / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--n", type=int, default=1280)
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--lr", type=float, default=5e-4)
    ap.add_argument("--seed", type=int, default=1)
    a = ap.parse_args()
    torch.manual_seed(a.seed)
    vocab = Vocab()
    rows = write_reviews(a.n, a.seed)
    train = DataLoader(Reviews(rows, vocab), a.batch, collate_fn=collate)
    valid = DataLoader(Reviews(write_reviews(160, 99)[:80], vocab), 40, collate_fn=collate)
    model = ReviewClassifier(len(vocab))
    opt = torch.optim.AdamW(model.parameters(), lr=a.lr, weight_decay=0.01)
    scaler = torch.amp.GradScaler("cpu")
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 2 * a.lr, total_steps=len(train) + 1)
    for i, (ids, y) in enumerate(train):
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(ids)
            loss = F.cross_entropy(logits.float(), y)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
        sched.step()
        if i % 8 == 7:
            print(f"batch {i + 1}/{len(train)} loss {loss.item():.4f} scale {scaler.get_scale():g}")
        assert torch.isfinite(loss), f"loss is {loss.item()} at batch {i + 1}"
    print("validation accuracy", accuracy(model, valid))


if __name__ == "__main__":
    main()
