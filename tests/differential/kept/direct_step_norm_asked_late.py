# flags: {"use_amp": (True, False)}
import contextlib

import torch
from torch import nn


def fit(loader, model, criterion, optimizer, scaler, use_amp):
    for x, y in loader:
        with contextlib.nullcontext() if not use_amp else torch.autocast("cpu", dtype=torch.bfloat16):
            out = model(x)
            loss = criterion(out, y)
        scaler.scale(loss).backward(retain_graph=True)
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], 1.0)
        optimizer.step()
        scaler.update()
        scaler.scale(loss).backward(retain_graph=True)
        if not torch.isfinite(norm):
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
            continue
        optimizer.zero_grad()


def train(loader, use_amp):
    model = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu")
    fit(loader, model, criterion, optimizer, scaler, use_amp)
