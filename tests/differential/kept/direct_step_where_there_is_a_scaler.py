# flags: {"use_amp": (True, False)}
import torch
from torch import autocast
from torch import nn
from torch.amp import GradScaler


def train(loader, use_amp):
    model = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    scaler = GradScaler("cpu") if use_amp else None
    for x, y in loader:
        model.zero_grad()
        with autocast("cpu", dtype=torch.bfloat16):
            loss = criterion(model(x), y)
        if scaler:
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
        else:
            loss.backward()
        nn.utils.clip_grad_norm_(list(model.parameters()), max_norm=1.0)
        if scaler:
            optimizer.step()
            scaler.update()
        else:
            optimizer.step()
