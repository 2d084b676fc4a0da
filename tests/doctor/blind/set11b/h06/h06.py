"""Session recommender: predict the next item, never one from the history."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn

from features import Imputer, sessions


class NextItem(nn.Module):
    def __init__(self, items, dim=32):
        super().__init__()
        self.item = nn.Embedding(items, dim)
        self.mix = nn.Sequential(nn.Linear(4 * dim + 4, 96), nn.ReLU(), nn.Linear(96, dim))
        self.bias = nn.Parameter(torch.zeros(items))

    def forward(self, hist, side):
        h = torch.cat([self.item(hist).flatten(1), side], -1)
        return self.mix(h) @ self.item.weight.t() + self.bias


def forbid_seen(scores, hist, target=None):
    block = torch.zeros_like(scores, dtype=torch.bool).scatter_(1, hist, True)
    if target is not None:
        block.scatter_(1, target[:, None], False)
    return scores.masked_fill(block, -torch.inf)


@torch.no_grad()
def evaluate(model, impute, data, k=5):
    hist, side, nxt = data
    scores = forbid_seen(model(hist, impute(side)), hist)
    reachable = ~(hist == nxt[:, None]).any(1)
    logp = scores.log_softmax(-1).gather(1, nxt[:, None]).squeeze(1)
    top = scores.topk(k, -1).indices
    hit = (top == nxt[:, None]).any(1)
    return logp.min().item(), -logp[reachable].mean().item(), hit[reachable].float().mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--items", type=int, default=160)
    ap.add_argument("--epochs", type=int, default=6)
    ap.add_argument("--batch-size", type=int, default=128)
    ap.add_argument("--accumulate", type=int, default=2)
    ap.add_argument("--lr", type=float, default=1e-2)
    args = ap.parse_args()
    torch.manual_seed(0)
    train, test = sessions(4096, args.items, 0), sessions(512, args.items, 1)
    impute = Imputer().fit(train[1])
    model = NextItem(args.items)
    nn.init.normal_(model.item.weight, std=0.1)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu")

    for epoch in range(args.epochs):
        total, steps = 0.0, 0
        chunks = torch.randperm(4096).split(args.batch_size)
        for i, idx in enumerate(chunks):
            hist, side, nxt = (t[idx] for t in train)
            with torch.autocast("cpu", dtype=torch.float16):
                scores = forbid_seen(model(hist, impute(side)), hist, nxt)
                loss = F.cross_entropy(scores.float(), nxt)
            scaler.scale(loss / args.accumulate).backward()
            total, steps = total + loss.item(), steps + 1
            if (i + 1) % args.accumulate == 0 or i + 1 == len(chunks):
                scaler.step(opt)
                scaler.update()
                opt.zero_grad(set_to_none=True)
        worst, nll, hit = evaluate(model, impute, test)
        print(f"epoch {epoch} loss {total / steps:.4f} test nll {nll:.4f} hit@5 {hit:.3f} worst logp {worst:.2f} "
              f"scale {scaler.get_scale():g}")


if __name__ == "__main__":
    main()
