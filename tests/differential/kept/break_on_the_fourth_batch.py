# flags: {"use_amp": (True, False)}
import torch
from torch import nn


def fit(loader, model, criterion, optimizer, scaler, use_amp):
    for i, (x, y) in enumerate(loader):
        if use_amp:
            print("", end="")
        if i == 3:
            break
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = model(x)
        loss = criterion(out, y)
        scaler.scale(loss).backward(retain_graph=True)
        loss.backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(list(model.parameters()), 1.0)
        scaler.step(optimizer)
        scaler.update()
        model.zero_grad()
    scaler.step(optimizer)


def train(loader, use_amp):
    model = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    scaler = torch.amp.GradScaler("cpu", enabled=use_amp)
    fit(loader, model, criterion, optimizer, scaler, use_amp)
