# flags: {"max_norm": (None, 0.0, 1.0), "use_amp": (True, False)}
import torch
from torch import autocast
from torch import nn
from torch.amp import GradScaler


def train(loader, max_norm, use_amp):
    model = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6, momentum=0.9)
    scaler = GradScaler("cpu", enabled=use_amp)
    for x, y in loader:
        if max_norm:
            print("", end="")
        with autocast("cpu", dtype=torch.bfloat16):
            loss = criterion(model(x), y)
            loss_aux = criterion(model(x * 1.5), y)
        scaler.scale(loss).backward()
        scaler.scale(loss_aux).backward(retain_graph=True)
        if max_norm is not None:
            scaler.unscale_(optimizer)
        if max_norm:
            for p in model.parameters():
                if p.grad is not None:
                    p.grad.clamp_(-1.0, 1.0)
            optimizer.zero_grad()
        scaler.step(optimizer)
        scaler.scale(loss_aux).backward(retain_graph=True)
        loss_aux.backward(retain_graph=True)
        scaler.update()
