# flags: {"fast": (True, False)}
import torch
from torch import nn


def fit(loader, model, criterion, optimizer, scaler):
    for p in model.parameters():
        if p.grad is not None:
            p.grad.clamp_(-1.0, 1.0)
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        scaler.scale(loss).backward(retain_graph=True)
        scaler.unscale_(optimizer)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def train(loader, fast):
    model = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    scaler = torch.amp.GradScaler("cpu", enabled=fast)
    fit(loader, model, criterion, optimizer, scaler)
