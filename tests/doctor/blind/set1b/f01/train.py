import argparse

import torch
import torch.nn.functional as F

from data import make_batch, points_at
from model import DeepSets


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=60)
    p.add_argument("--batch-size", type=int, default=8)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--seed", type=int, default=3)
    return p.parse_args()


def main():
    args = parse()
    torch.manual_seed(args.seed)
    gen = torch.Generator().manual_seed(args.seed)
    model = DeepSets()
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu")

    for step in range(args.steps):
        n = points_at(step, args.steps)
        pts, labels = make_batch(args.batch_size, n, gen)
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(pts)
            loss = F.cross_entropy(logits, labels)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
        if step % 5 == 0 or step == args.steps - 1:
            acc = (logits.argmax(-1) == labels).float().mean().item()
            print(f"step {step:3d}  points {n:5d}  loss {loss.item():.4f}  acc {acc:.2f}  scale {scaler.get_scale():.0f}")


if __name__ == "__main__":
    main()
