# flags: {}
import torch
from torch import autocast
from torch import nn
from torch.amp import GradScaler


def train(loader):
    model = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    scaler = GradScaler("cpu")
    for x, y in loader:
        for p in model.parameters():
            p.grad = None
        with autocast("cpu", dtype=torch.bfloat16):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if not torch.isfinite(norm):
            scaler.update()
            continue
        scaler.update()
