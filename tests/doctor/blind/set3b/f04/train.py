"""Forecast of machine health from sensor windows: reversible normalisation around a small TCN."""
import argparse
import json
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F

import revin
from stream import windows


def build_parser():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--windows", type=int, default=20, help="batches in an epoch")
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--out", default=None)
    return p


def epoch_loop(net, opt, scaler, batches):
    total, seen, skipped = 0.0, 0, 0
    for past, future in batches:
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            pred = net(past)
            loss = F.smooth_l1_loss(pred, future)
        before = scaler.get_scale()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        skipped += scaler.get_scale() < before
        total += loss.item()
        seen += 1
    return {"loss": total / seen, "skipped": skipped, "scale": scaler.get_scale()}


def main():
    args = build_parser().parse_args()
    torch.manual_seed(11)
    out = Path(args.out or tempfile.mkdtemp(prefix="tcn_"))
    net = revin.Forecaster(sensors=5, hidden=16, horizon=4)
    opt = torch.optim.Adam(net.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
    log = []
    for epoch in range(args.epochs):
        stats = epoch_loop(net, opt, scaler, windows(args.windows, epoch))
        log.append(stats)
        print(f"epoch {epoch}", " ".join(f"{k}={v:.4g}" for k, v in stats.items()))
    (out / "log.json").write_text(json.dumps(log))


if __name__ == "__main__":
    main()
