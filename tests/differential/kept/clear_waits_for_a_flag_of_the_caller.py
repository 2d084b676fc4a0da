# flags: {"use_amp": (True, False)}
import torch
from torch import nn


def fit(loader, model, criterion, optimizer, scaler, use_amp):
    for x, y in loader:
        loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if use_amp:
            optimizer.zero_grad()


def train(loader, use_amp):
    model = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    scaler = torch.amp.GradScaler("cpu", enabled=use_amp)
    fit(loader, model, criterion, optimizer, scaler, use_amp)
