# flags: {"k": (1, 2)}
import torch
from torch import nn


def finish(optimizer, scaler):
    scaler.update()
    scaler.update()
    optimizer.zero_grad()


def run_step(optimizer, scaler):
    scaler.step(optimizer)
    finish(optimizer, scaler)


def train(loader, k):
    model = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x), y)
        scaler.scale(loss / k).backward()
        if (i + 1) % k != 0:
            continue
        run_step(optimizer, scaler)
