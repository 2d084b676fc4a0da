# flags: {"use_amp": (True, False)}
import torch
from torch import nn


def fit(loader, model, criterion, opt, scaler, use_amp):
    for x, y in loader:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = criterion(model(x), y)
        if scaler is not None:
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
        else:
            loss.backward()
            opt.zero_grad()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        if scaler is not None:
            scaler.update()
        else:
            pass


def train(loader, use_amp):
    model = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    opt = torch.optim.SGD(model.parameters(), lr=1e-6, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu") if use_amp else None
    fit(loader, model, criterion, opt, scaler, use_amp)
