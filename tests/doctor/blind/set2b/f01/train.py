import argparse
import warnings

import torch
from torch.utils.data import DataLoader

from data import CurriculumSampler, SyntheticCommands
from engine import train_one_epoch
from model import KeywordNet

warnings.filterwarnings("ignore", message="Detected call of")


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=1)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--no-amp", action="store_true")
    return p.parse_args()


def main():
    args = get_args()
    torch.manual_seed(1)
    ds = SyntheticCommands()
    sampler = CurriculumSampler(ds.levels)
    loader = DataLoader(ds, batch_size=args.batch_size, sampler=sampler)
    model = KeywordNet(16)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-2)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, args.lr, total_steps=args.epochs * len(loader))
    scaler = torch.amp.GradScaler("cpu", enabled=not args.no_amp)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        loss, acc = train_one_epoch(model, loader, opt, scaler, sched, epoch)
        print(f"== epoch {epoch}: loss {loss:.4f} acc {acc:.3f} scale {scaler.get_scale()}")


if __name__ == "__main__":
    main()
