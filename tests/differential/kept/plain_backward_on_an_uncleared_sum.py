# flags: {"fast": (True, False)}
import contextlib
import torch
from torch import autocast
from torch import nn
from torch.amp import GradScaler


def train(loader, fast):
    net_d = nn.Linear(1, 1)
    net_g = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    optimizer_d = torch.optim.SGD(net_d.parameters(), lr=1e-6)
    optimizer_g = torch.optim.SGD(net_g.parameters(), lr=1e-6)
    scaler = GradScaler("cpu", enabled=fast)
    for x, y in loader:
        with autocast("cpu", dtype=torch.bfloat16) if fast else contextlib.nullcontext():
            fake = net_g(x)
            loss_d = criterion(net_d(x), y) + criterion(net_d(fake.detach()), y)
        scaler.scale(loss_d).backward()
        scaler.step(optimizer_d)
        scaler.update()
        optimizer_g.zero_grad()
        with autocast("cpu", dtype=torch.bfloat16) if fast else contextlib.nullcontext():
            loss_g = criterion(net_d(fake), y)
        loss_g.backward()
        scaler.step(optimizer_g)
        scaler.update()
