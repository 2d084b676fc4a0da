# flags: {"use_amp": (True, False)}
import contextlib

import torch
from torch import nn


def adapt(scaler):
    scaler.update()


def clear(model):
    for p in model.parameters():
        p.grad = None


def fit(loader, model, criterion, optimizer, scaler, use_amp):
    for epoch in range(3):
        for _ in range(2):
            clear(model)
        done = 0
        while True:
            x, y = loader[done]
            done += 1
            with contextlib.nullcontext() if not use_amp else torch.autocast("cpu", dtype=torch.bfloat16):
                loss = criterion(model(x), y)
            if done % 4 == 0:
                break
            scaler.scale(loss / 4).backward()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        adapt(scaler)


def train(loader, use_amp):
    model = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    scaler = torch.amp.GradScaler("cpu", enabled=use_amp)
    fit(loader, model, criterion, optimizer, scaler, use_amp)
