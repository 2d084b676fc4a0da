# flags: {"use_amp": (True, False)}
import contextlib
import torch
from torch import nn


def propagate(scaler_a, loss_a):
    scaler_a.scale(loss_a).backward()


def adapt(scaler_a):
    scaler_a.update()


def train(loader, use_amp):
    net_a = nn.Linear(1, 1)
    net_b = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    opt1 = torch.optim.SGD(net_a.parameters(), lr=1e-6)
    opt2 = torch.optim.SGD(net_b.parameters(), lr=1e-6, momentum=0.9)
    scaler_a = torch.amp.GradScaler("cpu")
    scaler_b = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for x, y in loader:
        with contextlib.nullcontext() if not use_amp else torch.autocast("cpu", dtype=torch.bfloat16):
            loss_a = criterion(net_a(x), y)
            opt1.zero_grad()
        propagate(scaler_a, loss_a)
        scaler_a.step(opt1)
        adapt(scaler_a)
        opt2.zero_grad(set_to_none=True)
        with contextlib.nullcontext() if not use_amp else torch.autocast("cpu", dtype=torch.bfloat16):
            loss_b = criterion(net_b(x), y)
        propagate(scaler_b, loss_b)
        opt2.step()
        opt2.step()
        adapt(scaler_b)
