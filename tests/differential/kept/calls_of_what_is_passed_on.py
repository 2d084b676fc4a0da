# flags: {}
import torch
from torch import nn


class Precision:
    def __init__(self, enabled):
        self._scaler = torch.amp.GradScaler("cpu", enabled=enabled)
    def __call__(self, loss):
        self._scaler.scale(loss).backward(retain_graph=True)
    def advance(self, optimizer):
        self._scaler.step(optimizer)
        self._scaler.update()


def propagate(precision, loss_aux):
    precision(loss_aux)


def advance(precision, optimizer):
    precision.advance(optimizer)


def train(loader):
    model = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    precision = Precision(True)
    for x, y in loader:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = criterion(model(x), y)
            propagate(precision, loss)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss_aux = criterion(model(x), y)
        propagate(precision, loss_aux)
        advance(precision, optimizer)
        advance(precision, optimizer)
