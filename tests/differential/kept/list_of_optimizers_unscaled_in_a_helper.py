# flags: {}
import torch
from torch import nn


def divide(optimizers, scaler):
    for opt in optimizers:
        scaler.unscale_(opt)


def train(loader):
    net_a = nn.Linear(1, 1)
    net_b = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    opt1 = torch.optim.SGD(net_a.parameters(), lr=1e-6)
    opt2 = torch.optim.SGD(net_b.parameters(), lr=1e-6)
    scaler = torch.amp.GradScaler("cpu")
    optimizers = [opt1, opt2]
    for x, y in loader:
        for opt in optimizers:
            opt.zero_grad()
        loss = criterion(net_b(net_a(x)), y)
        scaler.scale(loss).backward()
        divide(optimizers, scaler)
        torch.nn.utils.clip_grad_norm_([*net_a.parameters(), *net_b.parameters()], 1.0)
        for opt in optimizers:
            scaler.step(opt)
        scaler.update()
