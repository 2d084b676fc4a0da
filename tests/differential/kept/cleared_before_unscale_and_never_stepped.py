# flags: {"clip": (True, False), "use_amp": (True, False)}
import argparse
import torch
from torch import nn


def train(loader, args):
    model = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    scaler = torch.amp.GradScaler("cpu", enabled=args.use_amp)
    for x, y in loader:
        if args.clip:
            print("", end="")
        for _ in range(2):
            for p in model.parameters():
                p.grad = None
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        if not args.clip:
            pass
        else:
            for p in model.parameters():
                p.grad = None
            scaler.unscale_(optimizer)
        if args.clip:
            torch.nn.utils.clip_grad_value_(model.parameters(), 1.0)
        scaler.update()


def main(loader, clip, use_amp):
    train(loader, argparse.Namespace(clip=clip, use_amp=use_amp))
