import argparse
import sys

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

from corpus import Recordings
from net import KeywordNet


def parse():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=1)
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--patience", type=int, default=3, help="abort after that many bad losses in a row")
    return ap.parse_args()


def main():
    args = parse()
    torch.manual_seed(1)
    loader = DataLoader(Recordings(), batch_size=args.batch, shuffle=False)
    model = KeywordNet(5)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    bad, step = 0, 0
    for epoch in range(args.epochs):
        for wave, label in loader:
            opt.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.float16):
                logits = model(wave)
                loss = F.cross_entropy(logits, label)
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            step += 1
            acc = (logits.argmax(1) == label).float().mean().item()
            if step % 5 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f} acc {acc:.2f}")
            bad = bad + 1 if not torch.isfinite(loss) else 0
            if bad >= args.patience:
                print(f"loss is {loss.item()} for {bad} steps, giving up", file=sys.stderr)
                sys.exit(1)


if __name__ == "__main__":
    main()
