import argparse
import json
import sys

import torch
import torch.nn.functional as F

from snn import SpikingClassifier


def parse():
    ap = argparse.ArgumentParser("event-camera gestures")
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--batch", type=int, default=24)
    ap.add_argument("--time-bins", type=int, default=12)
    ap.add_argument("--ramp", type=int, default=45, help="steps until full event rate")
    ap.add_argument("--fp32", action="store_true")
    return ap.parse_args()


def event_batch(g, n, T, rate, n_ch=64, n_cls=6):
    y = torch.randint(0, n_cls, (n,), generator=g)
    base = torch.full((T, n, n_ch), 0.03)
    for i, c in enumerate(y.tolist()):
        lo = c * n_ch // n_cls
        base[:, i, lo:lo + n_ch // n_cls] = 0.45
    lam = base * rate
    return torch.poisson(lam, generator=g), y


def rate_penalty(rates, target=0.2):
    return sum((r.float() - target).pow(2) for r in rates)


def main():
    args = parse()
    torch.manual_seed(5)
    g = torch.Generator().manual_seed(11)
    net = SpikingClassifier(64, 96, 6)
    opt = torch.optim.Adam([
        {"params": net.l1.parameters(), "lr": 1e-3},
        {"params": net.l2.parameters(), "lr": 1e-3},
        {"params": net.out.parameters(), "lr": 4e-3},
    ])
    scaler = torch.amp.GradScaler("cpu", init_scale=4096.0, enabled=not args.fp32)
    history = []
    for step in range(args.steps):
        rate = 0.25 + 2.5 * min(1.0, step / args.ramp)
        x, y = event_batch(g, args.batch, args.time_bins, rate)
        with torch.autocast("cpu", torch.float16, enabled=not args.fp32):
            logits, rates = net(x)
            loss = F.cross_entropy(logits, y) + 0.1 * rate_penalty(rates)
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        acc = (logits.argmax(1) == y).float().mean().item()
        history.append({"step": step, "loss": round(loss.item(), 4), "acc": round(acc, 3),
                        "rate": [round(r.item(), 3) for r in rates], "scale": scaler.get_scale()})
        if step % 6 == 0 or step == args.steps - 1:
            print(json.dumps(history[-1]))
    tail = [h["acc"] for h in history[-10:]]
    print("final accuracy", sum(tail) / len(tail))
    return 0


if __name__ == "__main__":
    sys.exit(main())
