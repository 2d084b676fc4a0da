import argparse
import random

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

from model import Decoder

VOCAB = 14  # 0 pad, 1 bos, 2 eos, 3 =, 4.. digits


def sample(rng):
    n = rng.randint(2, 6)
    digits = [rng.randint(4, VOCAB - 1) for _ in range(n)]
    return [1] + digits + [3] + sorted(digits) + [2]


def collate(rows):
    width = max(map(len, rows))
    return torch.tensor([r + [0] * (width - len(r)) for r in rows])


def lm_loss(logits, ids):
    target = ids[:, 1:].masked_fill(ids[:, 1:] == 0, -100)
    return F.cross_entropy(logits[:, :-1].reshape(-1, VOCAB).float(), target.reshape(-1), ignore_index=-100)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=5)
    ap.add_argument("--batch-size", type=int, default=32)
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--warmup", type=int, default=20)
    args = ap.parse_args()
    torch.manual_seed(0)
    rng = random.Random(0)
    rows = [sample(rng) for _ in range(800)]
    loader = DataLoader(rows, args.batch_size, shuffle=True, collate_fn=collate)
    model = Decoder(VOCAB)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.98))
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min((s + 1) / args.warmup, 1.0))
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 14)
    for epoch in range(args.epochs):
        total = 0.0
        for ids in loader:
            with torch.autocast("cpu", dtype=torch.float16):
                loss = lm_loss(model(ids), ids)
            opt.zero_grad()
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(opt)
            scaler.update()
            sched.step()
            total += loss.item()
        print(f"epoch {epoch} loss {total / len(loader):.4f}")


if __name__ == "__main__":
    main()
