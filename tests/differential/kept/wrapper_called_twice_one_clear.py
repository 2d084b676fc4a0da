# flags: {}
import torch
from torch import nn


class NativeScaler:
    def __init__(self):
        self._scaler = torch.amp.GradScaler("cpu")

    def __call__(self, loss, optimizer):
        self._scaler.scale(loss).backward()
        self._scaler.step(optimizer)
        self._scaler.update()


def train(loader):
    model = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    loss_scaler = NativeScaler()
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss_scaler(loss, optimizer)
        loss_aux = criterion(model(x), y)
        loss_scaler(loss_aux, optimizer)
