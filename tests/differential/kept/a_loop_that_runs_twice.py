# flags: {"use_amp": (True, False)}
import torch
from torch import autocast
from torch import nn
from torch.amp import GradScaler


class Precision:
    def __init__(self, enabled):
        self._scaler = GradScaler("cpu", enabled=enabled)
    def __call__(self, loss):
        self._scaler.scale(loss).backward(retain_graph=True)
    def divide(self, optimizer):
        self._scaler.unscale_(optimizer)
    def advance(self, optimizer):
        self._scaler.step(optimizer)
        self._scaler.update()


def fit(loader, model, criterion, opt, use_amp):
    precision = Precision(use_amp)
    for x, y in loader:
        opt.zero_grad()
        with autocast("cpu", dtype=torch.bfloat16):
            nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], 1.0)
            loss = criterion(model(x), y)
        precision(loss)
        precision.advance(opt)
        with autocast("cpu", dtype=torch.bfloat16):
            out = model(x)
            loss_aux = criterion(out, y)
        precision(loss_aux)
        for _ in range(2):
            precision.divide(opt)


def train(loader, use_amp):
    model = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    opt = torch.optim.SGD(model.parameters(), lr=1e-6, momentum=0.9)
    fit(loader, model, criterion, opt, use_amp)
