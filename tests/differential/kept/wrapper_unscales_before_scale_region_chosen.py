# flags: {"use_amp": (True, False)}
import contextlib

import torch
from torch import nn


class NativeScaler:
    def __init__(self):
        self._scaler = torch.amp.GradScaler("cpu")

    def __call__(self, loss, optimizer):
        self._scaler.unscale_(optimizer)
        self._scaler.scale(loss).backward()
        self._scaler.step(optimizer)
        self._scaler.update()


def train(loader, use_amp):
    model = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    loss_scaler = NativeScaler()
    for x, y in loader:
        optimizer.zero_grad()
        with contextlib.nullcontext() if not use_amp else torch.autocast("cpu", dtype=torch.bfloat16):
            loss = criterion(model(x), y)
        loss_scaler(loss, optimizer)
        optimizer.zero_grad()
        with contextlib.nullcontext() if not use_amp else torch.autocast("cpu", dtype=torch.bfloat16):
            loss_aux = criterion(model(x), y)
        loss_scaler(loss_aux, optimizer)
