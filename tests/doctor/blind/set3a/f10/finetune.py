import argparse
import os

import torch
import torch.nn as nn
import torch.nn.functional as F

from backbone import Backbone, Classifier
from satdata import tiles

HERE = os.path.dirname(os.path.abspath(__file__))


def load_backbone(path):
    ck = torch.load(path, weights_only=True)
    net = Backbone()
    net.load_state_dict(ck["state_dict"])
    return net


def finetune(path, args):
    x, y = tiles(240, 8, seed=5)
    xv, yv = tiles(80, 8, seed=6)
    model = Classifier(load_backbone(path), 8)
    for name, p in model.backbone.named_parameters():
        p.requires_grad = name.startswith(("c3", "b3"))
    opt = torch.optim.Adam([
        {"params": [p for p in model.backbone.parameters() if p.requires_grad], "lr": args.lr * 0.1},
        {"params": model.head.parameters(), "lr": args.lr},
    ])
    scaler = torch.amp.GradScaler("cpu")
    for ep in range(args.epochs):
        model.train()
        for m in model.modules():
            if isinstance(m, nn.BatchNorm2d):
                m.eval()
        tot = 0.0
        for idx in torch.randperm(len(x)).split(24):
            with torch.autocast("cpu", dtype=torch.float16):
                loss = F.cross_entropy(model(x[idx]), y[idx], label_smoothing=0.05)
            opt.zero_grad(set_to_none=True)
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(opt)
            scaler.update()
            tot += loss.item() * len(idx)
        model.eval()
        with torch.no_grad():
            acc = (model(xv).argmax(1) == yv).float().mean().item()
        print(f"epoch {ep} loss {tot / len(x):.4f} val acc {acc:.3f}")


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=4)
    ap.add_argument("--lr", type=float, default=5e-3)
    ap.add_argument("--checkpoint", default=os.path.join(HERE, "backbone_fp16.pt"))
    args = ap.parse_args()
    torch.manual_seed(4)
    finetune(args.checkpoint, args)
