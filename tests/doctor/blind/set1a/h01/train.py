import argparse
import math

import torch

from gpt import GPT

TEXT = (
    "the miller had three sons, and when he died he left them his mill, his donkey and a cat. "
    "the sons had to grind, the donkey had to fetch corn and carry flour, and the cat had to catch mice. "
    "when the miller died the three sons divided their inheritance. the eldest got the mill, "
    "the second the donkey, and the third the cat, for nothing else was left to him. "
) * 8


def get_batch(data, bs, ctx, g):
    ix = torch.randint(0, len(data) - ctx - 1, (bs,), generator=g)
    x = torch.stack([data[i:i + ctx] for i in ix])
    y = torch.stack([data[i + 1:i + ctx + 1] for i in ix])
    return x, y


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=36)
    ap.add_argument("--accum", type=int, default=2)
    ap.add_argument("--bs", type=int, default=8)
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--clip", type=float, default=1.0)
    args = ap.parse_args()
    torch.manual_seed(1337)
    chars = sorted(set(TEXT))
    data = torch.tensor([chars.index(c) for c in TEXT])
    g = torch.Generator().manual_seed(1)
    model = GPT(len(chars))
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.95))
    sched = torch.optim.lr_scheduler.LambdaLR(
        opt, lambda s: min(1.0, (s + 1) / 8) * 0.5 * (1 + math.cos(math.pi * s / args.steps)))
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 22)

    for step in range(args.steps):
        total, tokens = 0.0, 0
        batches = [get_batch(data, args.bs, 48, g) for _ in range(args.accum)]
        n_tok = sum(y.numel() for _, y in batches)
        for x, y in batches:
            with torch.autocast("cpu", dtype=torch.float16):
                loss = model(x, y)
            scaler.scale(loss / n_tok).backward()
            total += loss.item()
            tokens += y.numel()
        scaler.unscale_(opt)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        scaler.step(opt)
        before = scaler.get_scale()
        scaler.update()
        opt.zero_grad(set_to_none=True)
        if scaler.get_scale() >= before:
            sched.step()
        if step % 5 == 0:
            print(f"step {step:3d} loss/token {total / tokens:.4f} grad norm {norm.item():.3f} scale {scaler.get_scale():.0f}")


if __name__ == "__main__":
    main()
