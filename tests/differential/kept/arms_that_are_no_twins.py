# flags: {"use_amp": (True, False)}
import contextlib
import torch
from torch import nn


def train(loader, use_amp):
    model = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    scaler = torch.amp.GradScaler("cpu", enabled=use_amp)
    for x, y in loader:
        with torch.autocast("cpu", dtype=torch.bfloat16) if use_amp else contextlib.nullcontext():
            loss = criterion(model(x), y)
        if use_amp:
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            for p in model.parameters():
                if p.grad is not None:
                    p.grad.clamp_(-1.0, 1.0)
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward(retain_graph=True)
            model.zero_grad()
            optimizer.step()
            loss.backward(retain_graph=True)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
