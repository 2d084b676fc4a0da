# flags: {"k": (1, 2, 3), "fast": (True, False)}
import argparse
import torch
from torch import nn


def train(loader, args):
    model = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    scaler = torch.amp.GradScaler("cpu", enabled=args.fast)
    for i, (x, y) in enumerate(loader):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            optimizer.step()
            out = model(x)
            loss = criterion(out, y)
        scaled = scaler.scale(loss)
        scaled.backward()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss_aux = criterion(model(x * 1.5), y)
        scaler.scale(loss_aux).backward(retain_graph=True)
        loss_aux.backward()
        if (i + 1) % args.k == 0:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_value_(model.parameters(), 1.0)
        if (i + 1) % args.k == 0:
            scaler.update()
        if (i + 1) % args.k == 0:
            for p in model.parameters():
                p.grad = None


def main(loader, fast, k):
    train(loader, argparse.Namespace(fast=fast, k=k))
