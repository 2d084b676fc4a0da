# flags: {"use_amp": (True, False)}
import torch
from torch import autocast
from torch import nn
from torch.amp import GradScaler


def adapt(grad_scaler):
    grad_scaler.update()


def clear(net_d):
    for p in net_d.parameters():
        p.grad = None


def train(loader, use_amp):
    net_d = nn.Linear(1, 1)
    net_g = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    optimizer_d = torch.optim.SGD(net_d.parameters(), lr=1e-6, momentum=0.9)
    optimizer_g = torch.optim.SGD(net_g.parameters(), lr=1e-6)
    grad_scaler = GradScaler("cpu", enabled=use_amp)
    for x, y in loader:
        clear(net_d)
        with autocast("cpu", dtype=torch.bfloat16):
            fake = net_g(x)
            loss_d = criterion(net_d(x), y) + criterion(net_d(fake.detach()), y)
        grad_scaler.scale(loss_d).backward()
        grad_scaler.step(optimizer_d)
        adapt(grad_scaler)
        adapt(grad_scaler)
        adapt(grad_scaler)
        optimizer_g.zero_grad()
        with autocast("cpu", dtype=torch.bfloat16):
            loss_g = criterion(net_d(fake), y)
        grad_scaler.scale(loss_g).backward()
        if use_amp:
            grad_scaler.step(optimizer_g)
            adapt(grad_scaler)
