import argparse
import json

import torch
import torch.nn.functional as F

from optim_utils import build
from recsys import ClickLog, ClickModel


def auc(score, label):
    order = score.argsort()
    rank = torch.empty(len(order)).index_copy_(0, order, torch.arange(1, len(order) + 1).float())
    pos = label.sum()
    neg = len(label) - pos
    return ((rank[label == 1].sum() - pos * (pos + 1) / 2) / (pos * neg)).item()


def train(args):
    torch.manual_seed(args.seed)
    sizes = [200, 300, 100]
    log = ClickLog(sizes, args.seed)
    model = ClickModel(sizes)
    optims = build(model, args.lr, args.emb_lr)
    scaler = torch.amp.GradScaler("cpu")
    results = []
    for step in range(args.steps):
        dense, cats, label = log.batch(args.batch)
        with torch.autocast("cpu", dtype=torch.float16):
            logit = model(dense, cats)
            loss = F.binary_cross_entropy_with_logits(logit, label)
        for o in optims.values():
            o.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optims["dense"])
        optims["sparse"].step()
        scaler.update()
        if step % 10 == 9:
            results.append({"step": step + 1, "logloss": round(loss.item(), 4),
                            "auc": round(auc(logit.detach().float(), label), 4)})
            print(json.dumps(results[-1]))
    return results


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=120)
    p.add_argument("--batch", type=int, default=512)
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--emb-lr", type=float, default=10.0)
    p.add_argument("--seed", type=int, default=0)
    train(p.parse_args())
