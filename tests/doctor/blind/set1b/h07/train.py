import argparse
import sys

import torch
import torch.nn.functional as F

from model import Forecaster
from series import demand, windows


def evaluate(model, y, args):
    errs = []
    with torch.inference_mode():
        for x, t in windows(y, args.window, args.horizon, 64):
            with torch.autocast("cpu", dtype=torch.float16):
                p = model(x)
            errs.append((p - t).abs().median().item())
    return sum(errs) / len(errs)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=4)
    ap.add_argument("--window", type=int, default=48)
    ap.add_argument("--horizon", type=int, default=8)
    ap.add_argument("--goal", type=float, default=0.05, help="stop when the validation error is below it")
    args = ap.parse_args()
    torch.manual_seed(0)
    series, held = demand(2000, 0), demand(600, 1)
    model = Forecaster(args.window, args.horizon)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    for epoch in range(args.epochs):
        for i, (x, t) in enumerate(windows(series, args.window, args.horizon, 16)):
            opt.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.float16):
                pred = model(x)
            loss = F.mse_loss(pred, t)
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(opt)
            scaler.update()
            if i % 5 == 0:
                print(f"epoch {epoch} batch {i:2d} loss {loss.item():.3f}")
        err = evaluate(model, held, args)
        print(f"epoch {epoch}: validation error {err:.3f}")
        if err < args.goal:
            return 0
    print(f"goal of {args.goal} not reached", file=sys.stderr)
    return 3


if __name__ == "__main__":
    sys.exit(main())
