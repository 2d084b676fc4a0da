import argparse
import time

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

from data import WindowDataset, simulate_index
from model import Forecaster


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--lr", type=float, default=3e-4)
    p.add_argument("--device", default="cpu")
    return p.parse_args()


def main():
    args = parse()
    torch.manual_seed(0)
    loader = DataLoader(WindowDataset(simulate_index()), batch_size=args.batch_size, shuffle=False)
    model = Forecaster().to(args.device)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler(args.device)
    t0 = time.time()
    for epoch in range(args.epochs):
        total, n = 0.0, 0
        for it, (x, y) in enumerate(loader):
            x, y = x.to(args.device), y.to(args.device)
            opt.zero_grad(set_to_none=True)
            with torch.autocast(args.device, dtype=torch.float16):
                pred = model(x)
                loss = F.smooth_l1_loss(pred, y)
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            total += loss.item() * len(x)
            n += len(x)
            if it % 5 == 0:
                print(f"epoch {epoch} it {it:3d} loss {loss.item():.4f} ({time.time() - t0:.1f}s)")
        print(f"epoch {epoch}: mean loss {total / n:.4f}")


if __name__ == "__main__":
    main()
