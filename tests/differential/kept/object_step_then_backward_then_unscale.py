# flags: {}
import torch
from torch import nn


class Precision:
    def __init__(self):
        self._scaler = torch.amp.GradScaler("cpu")

    def __call__(self, loss):
        self._scaler.scale(loss).backward()

    def divide(self, optimizer):
        self._scaler.unscale_(optimizer)

    def advance(self, optimizer):
        self._scaler.step(optimizer)
        self._scaler.update()


def train(loader):
    model = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    precision = Precision()
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        precision(loss)
        precision.advance(optimizer)
        loss_aux = criterion(model(x), y)
        precision(loss_aux)
        precision.divide(optimizer)
