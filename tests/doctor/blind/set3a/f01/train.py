import argparse
import random

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

from data import SortedBatches, SyntheticSpeakers, collate
from xvector import XVector


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--seed", type=int, default=11)
    return p.parse_args()


def evaluate(model, loader):
    model.eval()
    right = total = 0
    loss_sum = 0.0
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
        for x, m, y in loader:
            logits = model(x, m)
            loss_sum += F.cross_entropy(logits, y, reduction="sum").item()
            right += (logits.argmax(1) == y).sum().item()
            total += len(y)
    return loss_sum / total, right / total


def main():
    args = get_args()
    random.seed(args.seed)
    torch.manual_seed(args.seed)
    train_set = SyntheticSpeakers(256, seed=1)
    dev_set = SyntheticSpeakers(64, seed=2)
    batches = SortedBatches(train_set.lengths, args.batch_size)
    loader = DataLoader(train_set, batch_sampler=batches, collate_fn=collate)
    dev = DataLoader(dev_set, batch_size=16, collate_fn=collate)

    model = XVector(train_set.n_mels, 8)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)

    step = 0
    for epoch in range(args.epochs):
        model.train()
        for x, m, y in loader:
            opt.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.float16):
                loss = F.cross_entropy(model(x, m), y)
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            scaler.step(opt)
            scaler.update()
            if step % 2 == 0:
                print(f"epoch {epoch} step {step:3d} frames {x.shape[2]:3d} loss {loss.item():.4f}")
            step += 1
        dl, da = evaluate(model, dev)
        print(f"epoch {epoch} dev loss {dl:.4f} acc {da:.3f}")


if __name__ == "__main__":
    main()
