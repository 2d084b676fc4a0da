"""Word classification on band energies with a recurrent net over conv features."""
import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

from data import BANDS, Clips


class ConvGRU(nn.Module):
    def __init__(self, words, width=32):
        super().__init__()
        self.conv = nn.Conv1d(BANDS, width, 5, padding=2)
        self.bn = nn.BatchNorm1d(width)
        self.cell = nn.GRUCell(width, width)
        self.head = nn.Linear(width, words)

    def forward(self, x):
        h = F.relu(self.bn(self.conv(x)))
        h = F.avg_pool1d(h, 4)
        state = torch.zeros(h.size(0), h.size(1))
        for t in range(h.size(2)):
            state = self.cell(h[:, :, t].float(), state)
        return self.head(state)


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=6)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--words", type=int, default=6)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--warmup", type=int, default=20)
    return p.parse_args()


def accuracy(model, loader):
    model.eval()
    right = total = 0
    with torch.no_grad():
        for x, y in loader:
            with torch.autocast("cpu", dtype=torch.float16):
                pred = model(x).argmax(-1)
            right += (pred == y).sum().item()
            total += len(y)
    model.train()
    return right / total


def main():
    args = get_args()
    torch.manual_seed(5)
    train = DataLoader(Clips(1024, args.words, seed=1), args.batch_size, shuffle=True)
    test = DataLoader(Clips(256, args.words, seed=2, quiet=0.0), 64)
    model = ConvGRU(args.words)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / args.warmup))
    scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)
    for epoch in range(args.epochs):
        t0, running = time.time(), 0.0
        for x, y in train:
            opt.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.float16):
                loss = F.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            before = scaler.get_scale()
            scaler.step(opt)
            scaler.update()
            if scaler.get_scale() >= before:
                sched.step()
            running += loss.item()
        print(f"{epoch}: loss {running / len(train):.4f} acc {accuracy(model, test):.3f} ({time.time() - t0:.1f}s)")


if __name__ == "__main__":
    main()
