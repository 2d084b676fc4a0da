import argparse

import torch
import torch.nn as nn

from pointnet import PointClassifier
from shapes import batches


class Runner:
    def __init__(self, args):
        self.args = args
        self.gen = torch.Generator().manual_seed(args.seed)
        torch.manual_seed(args.seed)
        self.model = PointClassifier()
        self.crit = nn.CrossEntropyLoss(label_smoothing=0.1)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=args.lr, weight_decay=1e-4)
        self.scaler = torch.amp.GradScaler("cpu")

    def forward_loss(self, pts, y):
        with torch.autocast("cpu", dtype=torch.float16):
            out = self.model(pts)
            return self.crit(out, y), out

    def epoch(self, e):
        self.model.train()
        augment = e >= self.args.augment_from
        hits = seen = 0
        for pts, y in batches(self.args.steps, self.args.bs, self.args.points, self.gen, augment):
            self.opt.zero_grad(set_to_none=True)
            loss, out = self.forward_loss(pts, y)
            self.scaler.scale(loss).backward()
            self.scaler.step(self.opt)
            self.scaler.update()
            hits += (out.argmax(1) == y).sum().item()
            seen += len(y)
        print(f"epoch {e} augment={augment} loss {loss.item():.4f} train acc {hits / seen:.3f}")

    def fit(self):
        for e in range(self.args.epochs):
            self.epoch(e)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=6)
    ap.add_argument("--steps", type=int, default=20)
    ap.add_argument("--bs", type=int, default=16)
    ap.add_argument("--points", type=int, default=40)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--augment-from", type=int, default=3)
    ap.add_argument("--seed", type=int, default=0)
    Runner(ap.parse_args()).fit()
