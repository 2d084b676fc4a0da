# flags: {"extra": (True, False)}
import torch
from torch import autocast
from torch import nn
from torch.amp import GradScaler


def fit(loader, model, criterion, optimizer, grad_scaler, extra):
    done = 0
    while done < len(loader):
        x, y = loader[done]
        optimizer.zero_grad()
        with autocast("cpu", dtype=torch.bfloat16):
            loss = criterion(model(x), y)
        grad_scaler.scale(loss).backward()
        grad_scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if extra:
            grad_scaler.step(optimizer)
            grad_scaler.step(optimizer)
            grad_scaler.update()
        done += 1


def train(loader, extra):
    model = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6, momentum=0.9)
    grad_scaler = GradScaler("cpu")
    fit(loader, model, criterion, optimizer, grad_scaler, extra)
