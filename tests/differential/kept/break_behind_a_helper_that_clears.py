# flags: {"use_amp": (True, False)}
import argparse
import torch
from torch import nn


def clear(optimizer):
    optimizer.zero_grad()


def train(loader, args):
    model = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", enabled=args.use_amp)
    for i, (x, y) in enumerate(loader):
        if i == 3:
            clear(optimizer)
            break
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.use_amp):
            out = model(x)
            loss = criterion(out, y)
        loss.backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        scaler.update()
        clear(optimizer)


def main(loader, use_amp):
    train(loader, argparse.Namespace(use_amp=use_amp))
