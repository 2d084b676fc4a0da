import argparse
import os
import tempfile

import torch
from torch import nn

from lab.losses import REGISTRY
from lab.trainer import Trainer


def voices(g, n, speakers=6):
    base = torch.randn(speakers, 20, generator=torch.Generator().manual_seed(140)) * 1.5
    while True:
        label = torch.randint(0, speakers, (n,), generator=g)
        yield base[label] + 0.8 * torch.randn(n, 20, generator=g), label


def build(args):
    torch.manual_seed(args.seed)
    net = nn.Sequential(nn.Linear(20, 48), nn.SiLU(), nn.Linear(48, 48), nn.SiLU(), nn.Linear(48, 12))
    return Trainer(net, 6, 12, args.lr, {n: 1.0 for n in args.losses})


def run(trainer, stream, until, jump_at):
    while trainer.step_no < until:
        x, label = next(stream)
        if trainer.step_no == jump_at:
            x = x * 30
        parts = trainer.step(x, label)
        if trainer.step_no % 8 == 0 or trainer.step_no - 1 == jump_at:
            print(trainer.step_no, " ".join(f"{k} {v:.4f}" for k, v in parts.items()))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--losses", nargs="+", choices=list(REGISTRY), default=list(REGISTRY))
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--steps", type=int, default=64)
    ap.add_argument("--seed", type=int, default=141)
    args = ap.parse_args()
    stream = voices(torch.Generator().manual_seed(142), 24)
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "last.pt")
        first = build(args)
        run(first, stream, args.steps // 2, jump_at=20)
        first.save(path)
        second = build(args)
        second.load(path)
        run(second, stream, args.steps, jump_at=-1)
    second.net.load_state_dict(second.ema)
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.float16):
        x, label = next(stream)
        sim = nn.functional.normalize(second.net(x).float()) @ nn.functional.normalize(second.centres.detach()).t()
    print("accuracy of the average:", (sim.argmax(1) == label).float().mean().item())


if __name__ == "__main__":
    main()
