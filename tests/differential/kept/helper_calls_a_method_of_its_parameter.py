# flags: {}
import torch
from torch import nn


class Precision:
    def __init__(self):
        self._scaler = torch.amp.GradScaler("cpu")

    def __call__(self, loss):
        self._scaler.scale(loss).backward()

    def advance(self, optimizer):
        self._scaler.step(optimizer)
        self._scaler.update()


def advance(precision, optimizer):
    precision.advance(optimizer)


def train(loader):
    model = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    precision = Precision()
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = criterion(model(x), y)
            precision(loss)
            advance(precision, optimizer)
