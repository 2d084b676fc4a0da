"""Small decoder LM on synthetic arithmetic sequences; short curriculum on length."""
import argparse
import random

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

from attention import DecoderLM

PAD, BOS, VOCAB = 0, 1, 40


class Sequences(Dataset):
    """x_{i+1} = x_i + step (mod 37), shifted past the special tokens."""

    def __init__(self, n, min_len, max_len, seed):
        rng = random.Random(seed)
        self.items = []
        for _ in range(n):
            length = rng.randint(min_len, max_len)
            start, step = rng.randrange(37), rng.randint(1, 5)
            self.items.append([BOS] + [(start + i * step) % 37 + 2 for i in range(length)])

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(batch):
    # prompts end at the same column so that decoding can start from the last one
    width = max(len(s) for s in batch)
    ids = torch.full((len(batch), width), PAD)
    for row, seq in enumerate(batch):
        ids[row, width - len(seq):] = torch.tensor(seq)
    return ids


def lm_loss(model, ids):
    logits = model(ids[:, :-1])
    return F.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten(), ignore_index=PAD)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--batch-size", type=int, default=32)
    args = p.parse_args()
    torch.manual_seed(0)

    model = DecoderLM(VOCAB, pad=PAD)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    scaler = torch.amp.GradScaler("cpu")

    for epoch in range(args.epochs):
        lo, hi = (20, 20) if epoch < 2 else (8, 24)
        data = Sequences(480, lo, hi, seed=epoch)
        total, n = 0.0, 0
        for ids in DataLoader(data, batch_size=args.batch_size, shuffle=True, collate_fn=collate):
            with torch.autocast("cpu", dtype=torch.float16):
                loss = lm_loss(model, ids)
            opt.zero_grad(set_to_none=True)
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(opt)
            scaler.update()
            total, n = total + loss.item(), n + 1
        print(f"epoch {epoch} len {lo}-{hi} loss {total / n:.4f} scale {scaler.get_scale():g}")


if __name__ == "__main__":
    main()
