# flags: {"use_amp": (True, False)}
import torch
from torch import nn


def fit(loader, model, criterion, optimizer, scaler, use_amp):
    def run_step():
        model.zero_grad()

    for x, y in loader:
        if use_amp:
            run_step()
        loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_value_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()


def train(loader, use_amp):
    model = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    scaler = torch.amp.GradScaler("cpu", enabled=use_amp)
    fit(loader, model, criterion, optimizer, scaler, use_amp)
