# flags: {"use_amp": (True, False)}
import argparse
import contextlib
import torch
from torch import nn


def train(loader, args):
    net_d = nn.Linear(1, 1)
    net_g = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    optimizer_d = torch.optim.SGD(net_d.parameters(), lr=1e-6, momentum=0.9)
    optimizer_g = torch.optim.SGD(net_g.parameters(), lr=1e-6, momentum=0.9)
    grad_scaler = torch.amp.GradScaler("cpu")
    for x, y in loader:
        with contextlib.nullcontext() if not args.use_amp else torch.autocast("cpu", dtype=torch.bfloat16):
            fake = net_g(x)
            loss_d = criterion(net_d(x), y) + criterion(net_d(fake.detach()), y)
        grad_scaler.scale(loss_d).backward(retain_graph=True)
        loss_d.backward()
        grad_scaler.step(optimizer_d)
        optimizer_g.zero_grad(set_to_none=True)
        with contextlib.nullcontext() if not args.use_amp else torch.autocast("cpu", dtype=torch.bfloat16):
            loss_g = criterion(net_d(fake), y)
            optimizer_d.zero_grad()
        grad_scaler.scale(loss_g).backward(retain_graph=True)
        grad_scaler.step(optimizer_g)
        grad_scaler.scale(loss_g).backward(retain_graph=True)
        grad_scaler.update()


def main(loader, use_amp):
    train(loader, argparse.Namespace(use_amp=use_amp))
