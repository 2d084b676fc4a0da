# flags: {"fast": (True, False)}
import argparse
import contextlib
import torch
from torch import autocast
from torch import nn
from torch.amp import GradScaler


def advance(optimizer):
    optimizer.step()


def clear(optimizer):
    optimizer.zero_grad()


def fit(loader, model, criterion, optimizer, scaler, args):
    for x, y in loader:
        clear(optimizer)
        with autocast("cpu", dtype=torch.bfloat16) if args.fast else contextlib.nullcontext():
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if not torch.isfinite(norm):
            scaler.update()
            continue
        advance(optimizer)
        scaler.update()


def train(loader, args):
    model = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    scaler = GradScaler("cpu", enabled=args.fast)
    fit(loader, model, criterion, optimizer, scaler, args)


def main(loader, fast):
    train(loader, argparse.Namespace(fast=fast))
