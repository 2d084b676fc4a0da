# flags: {"use_amp": (True, False)}
import argparse
import contextlib

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(1, 1)
        self.head = nn.Linear(1, 1)

    def forward(self, x):
        return self.head(self.body(x))


def divide(scaler, opt):
    scaler.unscale_(opt)


def clear(optimizers):
    for opt in optimizers:
        opt.zero_grad()


def train(loader, args):
    model = Net()
    criterion = nn.L1Loss()
    encoder_optimizer = torch.optim.SGD(model.body.parameters(), lr=1e-6)
    decoder_optimizer = torch.optim.SGD(model.head.parameters(), lr=1e-6, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", enabled=args.use_amp)
    optimizers = [encoder_optimizer, decoder_optimizer]
    parts = [model.body, model.head]
    for x, y in loader:
        with contextlib.nullcontext() if not args.use_amp else torch.autocast("cpu", dtype=torch.bfloat16):
            out = model(x)
            loss = criterion(out, y)
        scaler.scale(loss).backward()
        clear(optimizers)
        for part, opt in zip(parts, optimizers):
            divide(scaler, opt)
            divide(scaler, opt)
            torch.nn.utils.clip_grad_norm_(part.parameters(), 1.0)
        for opt in optimizers:
            scaler.step(opt)
        scaler.update()


def main(loader, use_amp):
    train(loader, argparse.Namespace(use_amp=use_amp))
