# flags: {"k": (1, 2), "max_norm": (None, 1.0), "use_amp": (True, False), "extra": (True, False)}
import torch
from torch import autocast
from torch import nn
from torch.amp import GradScaler


class NativeScaler:
    def __init__(self, enabled, extra):
        self._scaler = GradScaler("cpu", enabled=enabled)
        self.extra = extra
    def __call__(self, loss, optimizer, clip_grad=None, parameters=None, need_update=True):
        scaled = self._scaler.scale(loss)
        scaled.backward()
        if need_update:
            if clip_grad is not None:
                if self.extra:
                    self._scaler.unscale_(optimizer)
                norm = torch.nn.utils.clip_grad_norm_(parameters, clip_grad)
            self._scaler.step(optimizer)
            self._scaler.update()


def train(loader, extra, k, max_norm, use_amp):
    model = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6, momentum=0.9)
    loss_scaler = NativeScaler(use_amp, extra)
    for i, (x, y) in enumerate(loader):
        with autocast("cpu", dtype=torch.bfloat16, enabled=use_amp):
            loss = criterion(model(x), y)
        loss_scaler(loss, optimizer, clip_grad=max_norm, parameters=model.parameters(), need_update=(i + 1) % k == 0)
        if (i + 1) % k == 0:
            optimizer.zero_grad()
