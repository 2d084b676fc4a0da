# flags: {"k": (1, 2), "use_amp": (True, False)}
import torch
from torch import nn


class NativeScaler:
    def __init__(self, enabled):
        self._scaler = torch.amp.GradScaler("cpu", enabled=enabled)

    def __call__(self, loss, optimizer, need_update=True):
        self._scaler.scale(loss).backward()
        self._scaler.step(optimizer)
        if need_update:
            self._scaler.unscale_(optimizer)
            self._scaler.update()


def train(loader, k, use_amp):
    model = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    loss_scaler = NativeScaler(use_amp)
    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x), y)
        loss_scaler(loss, optimizer, need_update=(i + 1) % k == 0)
        if (i + 1) % k == 0:
            optimizer.zero_grad()
