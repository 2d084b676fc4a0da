# flags: {"max_norm": (None, 1.0), "use_amp": (True, False)}
import torch
from torch import nn


class NativeScaler:
    def __init__(self, enabled):
        self._scaler = torch.amp.GradScaler("cpu", enabled=enabled)

    def __call__(self, loss, optimizer, clip_grad=None, parameters=None):
        self._scaler.scale(loss).backward(retain_graph=True)
        self._scaler.unscale_(optimizer)
        if clip_grad is not None:
            norm = torch.nn.utils.clip_grad_norm_(parameters, clip_grad)
        self._scaler.step(optimizer)
        self._scaler.update()


def train(loader, max_norm, use_amp):
    model = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    opt = torch.optim.SGD(model.parameters(), lr=1e-6)
    loss_scaler = NativeScaler(use_amp)
    for x, y in loader:
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = criterion(model(x), y)
        for p in model.parameters():
            p.grad = None
        loss_scaler(loss, opt, clip_grad=max_norm, parameters=model.parameters())
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = model(x)
            loss_aux = criterion(out, y)
        loss_scaler(loss_aux, opt, clip_grad=max_norm, parameters=model.parameters())
