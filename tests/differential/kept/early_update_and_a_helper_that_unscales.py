# flags: {"fast": (True, False)}
import torch
from torch import autocast
from torch import nn
from torch.amp import GradScaler


def divide(grad_scaler, optimizer):
    grad_scaler.unscale_(optimizer)


def train(loader, fast):
    model = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    grad_scaler = GradScaler("cpu", enabled=fast)
    for x, y in loader:
        try:
            with autocast("cpu", dtype=torch.bfloat16):
                loss = criterion(model(x), y)
            grad_scaler.scale(loss).backward()
            grad_scaler.update()
            if fast:
                divide(grad_scaler, optimizer)
                grad_scaler.step(optimizer)
                grad_scaler.update()
        finally:
            optimizer.zero_grad()
