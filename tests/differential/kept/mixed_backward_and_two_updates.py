# flags: {"k": (1, 2), "max_norm": (None, 1.0), "use_amp": (True, False)}
import torch
from torch import nn


class NativeScaler:
    def __init__(self, enabled):
        self._scaler = torch.amp.GradScaler("cpu", enabled=enabled)
    def __call__(self, loss, optimizer, clip_grad=None, parameters=None, need_update=True):
        self._scaler.scale(loss).backward(retain_graph=True)
        loss.backward()
        if need_update:
            if clip_grad is not None:
                self._scaler.unscale_(optimizer)
                norm = torch.nn.utils.clip_grad_norm_(parameters, clip_grad)
            else:
                self._scaler.unscale_(optimizer)
            self._scaler.step(optimizer)
            self._scaler.update()
        self._scaler.update()


def train(loader, k, max_norm, use_amp):
    model = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    loss_scaler = NativeScaler(use_amp)
    for i, (x, y) in enumerate(loader):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=use_amp):
            out = model(x)
            loss = criterion(out, y)
        loss_scaler(loss, optimizer, clip_grad=max_norm, parameters=model.parameters(), need_update=(i + 1) % k == 0)
        if (i + 1) % k == 0:
            optimizer.zero_grad()
