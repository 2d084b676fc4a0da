# flags: {"fast": (True, False)}
import torch
from torch import nn


def train(loader, fast):
    net_a = nn.Linear(1, 1)
    net_b = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    opt1 = torch.optim.SGD(net_a.parameters(), lr=1e-6)
    opt2 = torch.optim.SGD(net_b.parameters(), lr=1e-6)
    scaler = torch.amp.GradScaler("cpu", enabled=fast)
    for x, y in loader:
        opt1.zero_grad()
        opt2.zero_grad()
        loss = criterion(net_b(net_a(x)), y)
        scaler.scale(loss).backward()
        if fast:
            scaler.step(opt1)
        scaler.step(opt2)
        scaler.update()
        scaler.update()
