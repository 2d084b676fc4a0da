# flags: {"fast": (True, False)}
import argparse
import contextlib
import torch
from torch import autocast
from torch import nn
from torch.amp import GradScaler


def fit(loader, net_d, net_g, criterion, optimizer_d, optimizer_g, scaler, args):
    for x, y in loader:
        optimizer_d.zero_grad()
        with contextlib.nullcontext() if not args.fast else autocast("cpu", dtype=torch.bfloat16):
            fake = net_g(x)
            loss_d = criterion(net_d(x), y) + criterion(net_d(fake.detach()), y)
            scaler.scale(loss_d).backward()
        nn.utils.clip_grad_value_(net_g.parameters(), 1.0)
        if args.fast:
            scaler.step(optimizer_d)
            optimizer_g.zero_grad()
        with contextlib.nullcontext() if not args.fast else autocast("cpu", dtype=torch.bfloat16):
            loss_g = criterion(net_d(fake), y)
        scaler.scale(loss_g).backward()
        scaler.unscale_(optimizer_g)
        scaler.step(optimizer_g)
        scaler.update()


def train(loader, args):
    net_d = nn.Linear(1, 1)
    net_g = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    optimizer_d = torch.optim.SGD(net_d.parameters(), lr=1e-6, momentum=0.9)
    optimizer_g = torch.optim.SGD(net_g.parameters(), lr=1e-6)
    scaler = GradScaler("cpu")
    fit(loader, net_d, net_g, criterion, optimizer_d, optimizer_g, scaler, args)


def main(loader, fast):
    train(loader, argparse.Namespace(fast=fast))
