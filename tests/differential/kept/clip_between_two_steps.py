# flags: {"skip": (True, False), "fast": (True, False)}
import argparse

import torch
from torch import nn


def advance(grad_scaler, optimizer):
    grad_scaler.step(optimizer)


def fit(loader, model, criterion, optimizer, grad_scaler, args):
    for x, y in loader:
        for p in model.parameters():
            p.grad = None
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.fast):
            out = model(x)
            loss = criterion(out, y)
            scaled = grad_scaler.scale(loss)
            scaled.backward()
            grad_scaler.unscale_(optimizer)
        if not args.skip:
            advance(grad_scaler, optimizer)
            torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], 1.0)
        advance(grad_scaler, optimizer)
        grad_scaler.update()


def train(loader, args):
    model = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    grad_scaler = torch.amp.GradScaler("cpu", enabled=args.fast)
    fit(loader, model, criterion, optimizer, grad_scaler, args)


def main(loader, fast, skip):
    train(loader, argparse.Namespace(fast=fast, skip=skip))
