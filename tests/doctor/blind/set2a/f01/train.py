import argparse
import math
import sys

import torch

from stylekit import Encoder, StyleGenerator, build_objectives, texture_batch


def resolutions(schedule):
    for size, steps in schedule:
        for _ in range(steps):
            yield size


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--batch", type=int, default=2)
    ap.add_argument("--objectives", nargs="+", default=["content", "style", "range"])
    ap.add_argument("--schedule", default="16x14,32x14,64x12")
    args = ap.parse_args()
    schedule = [tuple(int(v) for v in item.split("x")) for item in args.schedule.split(",")]

    torch.manual_seed(7)
    gen = torch.Generator().manual_seed(3)
    encoder, net = Encoder().eval(), StyleGenerator()
    opt = torch.optim.Adam(net.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu")
    objectives = build_objectives(args.objectives)
    broken = 0

    for step, size in enumerate(resolutions(schedule)):
        content, style = texture_batch(size, args.batch, gen)
        with torch.autocast("cpu", dtype=torch.float16):
            with torch.no_grad():
                f_content, f_style = encoder(content), encoder(style)
            loss, parts = objectives(encoder(net(content)), f_content, f_style)
        opt.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        broken += not math.isfinite(loss.item())
        if step % 4 == 0:
            shown = " ".join(f"{k} {v.item():.4f}" for k, v in parts.items())
            print(f"step {step:3d} size {size:3d} loss {loss.item():.4f} {shown}")

    print("steps with a broken loss:", broken)
    sys.exit(1 if broken > 5 else 0)


if __name__ == "__main__":
    main()
