"""Small decoder on arithmetic strings, right padded, bfloat16."""
import argparse

import torch
import torch.nn.functional as F

from model import Decoder

CHARS = "_0123456789+=$"
IDX = {c: i for i, c in enumerate(CHARS)}
LENGTH = 9


def problems(n, g):
    a = torch.randint(0, 30, (n,), generator=g).tolist()
    b = torch.randint(0, 30, (n,), generator=g).tolist()
    ids = torch.zeros(n, LENGTH + 1, dtype=torch.long)
    for i, (u, v) in enumerate(zip(a, b)):
        s = f"{u}+{v}={u + v}$"
        ids[i, :len(s)] = torch.tensor([IDX[c] for c in s])
    return ids


def nll(net, ids):
    logits = net(ids[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten(), ignore_index=0)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=400)
    ap.add_argument("--batch", type=int, default=48)
    ap.add_argument("--lr", type=float, default=3e-3)
    args = ap.parse_args()
    torch.manual_seed(23)
    g = torch.Generator().manual_seed(23)
    val = problems(200, torch.Generator().manual_seed(99))
    net = Decoder(len(CHARS), LENGTH)
    opt = torch.optim.AdamW(net.parameters(), lr=args.lr)
    warm = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / 50))
    best = float("inf")
    for step in range(1, args.steps + 1):
        net.train()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nll(net, problems(args.batch, g))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        warm.step()
        if step % 80 == 0:
            net.eval()
            with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
                v = nll(net, val).item()
            best = min(best, v)
            print(f"step {step} train {loss.item():.4f} val {v:.4f} best {best:.4f}")


if __name__ == "__main__":
    main()
