"""Byte-level language model with recomputation, accumulation, weight averaging and a resume in between."""
import argparse
import io

import torch

from h08.lm import TinyLM
from h08.loop import Loop

TEXT = (
    "the quick brown fox jumps over the lazy dog while the slow green turtle walks under the old wooden bridge "
) * 30


def build(args):
    torch.manual_seed(args.seed)
    model = TinyLM(vocab=28, dim=args.dim, depth=2)
    return Loop(model, lr=args.lr, accumulate=args.accumulate, max_norm=1.0, ema_decay=0.95)


def windows(ids, length, batch, gen):
    start = torch.randint(0, len(ids) - length - 1, (batch,), generator=gen)
    idx = start[:, None] + torch.arange(length + 1)
    block = ids[idx]
    return block[:, :-1], block[:, 1:]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--dim", type=int, default=48)
    ap.add_argument("--lr", type=float, default=4e-3)
    ap.add_argument("--accumulate", type=int, default=2)
    ap.add_argument("--updates", type=int, default=30)
    ap.add_argument("--seed", type=int, default=0)
    args = ap.parse_args()

    ids = torch.tensor([27 if c == " " else ord(c) - 97 for c in TEXT])
    gen = torch.Generator().manual_seed(args.seed)
    loop = build(args)
    disk = io.BytesIO()
    for update in range(args.updates):
        if update == args.updates // 2:
            disk.seek(0)
            loop = build(args)
            loop.load_state_dict(torch.load(disk, weights_only=True))
            print("resumed, scale", loop.scaler.get_scale())
        micro = [windows(ids, 32, 8, gen) for _ in range(args.accumulate)]
        loss = loop.update(micro)
        if update == args.updates // 2 - 1:
            torch.save(loop.state_dict(), disk)
        if update % 5 == 4:
            print(f"update {update + 1} loss {loss:.4f} bad {loop.bad} scale {loop.scaler.get_scale():g}")
    x, y = windows(ids, 32, 32, gen)
    print("averaged weights:", round(loop.evaluate(x, y), 4))


if __name__ == "__main__":
    main()
