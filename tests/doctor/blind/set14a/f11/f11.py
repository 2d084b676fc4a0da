import argparse

import torch
import torch.nn as nn

from engine import Distiller


def teacher_net(dim):
    net = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.GELU(), nn.Conv2d(32, 64, 2, 2), nn.GELU(), nn.Conv2d(64, dim, 1))
    for m in net:
        if isinstance(m, nn.Conv2d):
            nn.init.orthogonal_(m.weight, 2.0)
    return net


def student_net(dim, width=24, std=4.0):
    net = nn.Sequential(
        nn.Conv2d(3, width, 4, 2, 1), nn.ReLU(),
        nn.Conv2d(width, width, 3, padding=1), nn.ReLU(),
        nn.Conv2d(width, dim, 1))
    nn.init.normal_(net[-1].weight, std=std)
    return net


def scenes(n, size=16):
    coarse = torch.randn(n, 3, size // 4, size // 4)
    img = nn.functional.interpolate(coarse, size=(size, size), mode="bilinear", align_corners=False)
    return img + 0.1 * torch.randn(n, 3, size, size)


def parse():
    ap = argparse.ArgumentParser()
    ap.add_argument("--amp", action=argparse.BooleanOptionalAction, default=True)
    ap.add_argument("--dim", type=int, default=256)
    ap.add_argument("--batch", type=int, default=32)
    ap.add_argument("--steps", type=int, default=80)
    ap.add_argument("--lr", type=float, default=3e-3)
    return ap.parse_args()


def main():
    args = parse()
    torch.manual_seed(0)
    student = student_net(args.dim)
    opt = torch.optim.Adam(student.parameters(), lr=args.lr)
    engine = Distiller(teacher_net(args.dim), student, opt, use_amp=args.amp)
    val = scenes(32)
    print(f"student parameters {sum(p.numel() for p in student.parameters())}, amp {args.amp}")
    for step in range(args.steps):
        loss = engine.step(scenes(args.batch))
        if step % 20 == 0 or step == args.steps - 1:
            print(f"step {step:4d} loss {loss * args.dim:.5f} cosine {engine.similarity(val):.4f}")


if __name__ == "__main__":
    main()
