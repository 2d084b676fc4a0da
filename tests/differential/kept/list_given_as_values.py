# flags: {}
import torch
from torch import nn


def clear(optimizers):
    for opt in optimizers:
        opt.zero_grad()


def train(loader):
    net_a = nn.Linear(1, 1)
    net_b = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    opt1 = torch.optim.SGD(net_a.parameters(), lr=1e-6)
    opt2 = torch.optim.SGD(net_b.parameters(), lr=1e-6)
    scaler = torch.amp.GradScaler("cpu")
    optimizers = [opt1, opt2]
    self_opts = {"a": opt1, "b": opt2}
    for x, y in loader:
        clear(self_opts.values())
        loss = criterion(net_b(net_a(x)), y)
        scaler.scale(loss).backward()
        for opt in optimizers:
            scaler.unscale_(opt)
        for opt in optimizers:
            scaler.step(opt)
        scaler.update()
