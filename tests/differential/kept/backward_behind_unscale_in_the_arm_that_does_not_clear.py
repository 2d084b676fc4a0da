# flags: {"use_amp": (True, False)}
import torch
from torch import autocast
from torch import nn
from torch.amp import GradScaler


def fit(loader, model, criterion, optimizer, scaler, use_amp):
    for x, y in loader:
        if use_amp:
            print("", end="")
        with autocast("cpu", dtype=torch.bfloat16):
            loss = criterion(model(x), y)
        if use_amp:
            scaler.scale(loss).backward(retain_graph=True)
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(list(model.parameters()), 1.0)
            scaler.scale(loss).backward(retain_graph=True)
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            nn.utils.clip_grad_value_(model.parameters(), 1.0)
            model.zero_grad()
            optimizer.step()


def train(loader, use_amp):
    model = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6, momentum=0.9)
    scaler = GradScaler("cpu")
    fit(loader, model, criterion, optimizer, scaler, use_amp)
