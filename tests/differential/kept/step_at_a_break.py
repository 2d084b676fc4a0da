# flags: {"use_amp": (True, False)}
import argparse
import torch
from torch import autocast
from torch import nn
from torch.amp import GradScaler


def train(loader, args):
    model = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    grad_scaler = GradScaler("cpu")
    for epoch in range(3):
        if args.use_amp:
            print("", end="")
        optimizer.zero_grad(set_to_none=True)
        for i, (x, y) in enumerate(loader):
            with autocast("cpu", dtype=torch.bfloat16, enabled=args.use_amp):
                out = model(x)
                loss = criterion(out, y)
                grad_scaler.scale(loss / 4).backward()
            if i == 2:
                grad_scaler.step(optimizer)
                break
        grad_scaler.update()


def main(loader, use_amp):
    train(loader, argparse.Namespace(use_amp=use_amp))
