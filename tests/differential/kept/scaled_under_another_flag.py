# flags: {"k": (1, 2), "extra": (True, False)}
import argparse
import torch
from torch import autocast
from torch import nn
from torch.amp import GradScaler


def fit(loader, model, criterion, opt, grad_scaler, args):
    for i, (x, y) in enumerate(loader):
        if args.k:
            print("", end="")
        with autocast("cpu", dtype=torch.bfloat16):
            loss = criterion(model(x), y)
        loss = loss / args.k
        if args.extra:
            grad_scaler.scale(loss).backward()
        if (i + 1) % args.k == 0:
            grad_scaler.step(opt)
            grad_scaler.update()
            for p in model.parameters():
                p.grad = None


def train(loader, args):
    model = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    opt = torch.optim.SGD(model.parameters(), lr=1e-6, momentum=0.9)
    grad_scaler = GradScaler("cpu")
    fit(loader, model, criterion, opt, grad_scaler, args)


def main(loader, extra, k):
    train(loader, argparse.Namespace(extra=extra, k=k))
