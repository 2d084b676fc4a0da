# flags: {}
import torch
from torch import nn


def divide(scaler, optimizer_g):
    scaler.unscale_(optimizer_g)


def adapt(scaler):
    scaler.update()


def train(loader):
    net_d = nn.Linear(1, 1)
    net_g = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    optimizer_d = torch.optim.SGD(net_d.parameters(), lr=1e-6)
    optimizer_g = torch.optim.SGD(net_g.parameters(), lr=1e-6)
    scaler = torch.amp.GradScaler("cpu")
    for x, y in loader:
        optimizer_d.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            fake = net_g(x)
            loss_d = criterion(net_d(x), y) + criterion(net_d(fake.detach()), y)
            scaled_d = scaler.scale(loss_d)
            scaled_d.backward()
            divide(scaler, optimizer_d)
            torch.nn.utils.clip_grad_norm_(net_d.parameters(), max_norm=1.0)
        for _ in range(2):
            scaler.step(optimizer_d)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss_g = criterion(net_d(fake), y)
        scaler.scale(loss_g).backward()
        divide(scaler, optimizer_g)
        torch.nn.utils.clip_grad_norm_([p for p in net_g.parameters() if p.requires_grad], 1.0)
        scaler.step(optimizer_g)
        adapt(scaler)
