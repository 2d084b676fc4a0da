import argparse
import sys
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

from sensors import MachineRuns, export_csv
from tcn import TCN


def run_epoch(model, loader, opt, scaler):
    losses = []
    for i, (x, y) in enumerate(loader):
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16, enabled=scaler.is_enabled()):
            out = model(x)
            loss = F.cross_entropy(out, y)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        losses.append(loss.item())
        if i % 6 == 0:
            print(f"  {i:3d}/{len(loader)} loss {losses[-1]:.4f}")
    return sum(losses) / len(losses)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--files", type=int, default=240)
    ap.add_argument("--rows", type=int, default=96)
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--batch-size", type=int, default=8)
    ap.add_argument("--workers", type=int, default=1)
    ap.add_argument("--no-amp", action="store_true")
    args = ap.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as tmp:
        export_csv(Path(tmp), args.files, args.rows, 0)
        loader = DataLoader(MachineRuns(Path(tmp)), batch_size=args.batch_size, num_workers=args.workers)
        model = TCN()
        opt = torch.optim.Adam(model.parameters(), lr=1e-3)
        scaler = torch.amp.GradScaler("cpu", enabled=not args.no_amp)
        for epoch in range(args.epochs):
            mean = run_epoch(model, loader, opt, scaler)
            print(f"epoch {epoch}: mean loss {mean}")
            if mean != mean:
                sys.exit("training failed: loss is not a number")


if __name__ == "__main__":
    main()
