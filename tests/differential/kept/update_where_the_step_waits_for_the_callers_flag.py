# flags: {"k": (1, 2), "fast": (True, False)}
import contextlib

import torch
from torch import autocast, nn
from torch.amp import GradScaler


def run_step(fast, optim, amp_scaler):
    if fast:
        amp_scaler.step(optim)


def propagate(scaler, loss, k):
    scaler.scale(loss / k).backward()


def fit(loader, model, criterion, optimizer, scaler, fast, k):
    for i, (x, y) in enumerate(loader):
        with autocast("cpu", dtype=torch.bfloat16) if fast else contextlib.nullcontext():
            out = model(x)
            loss = criterion(out, y)
        propagate(scaler, loss, k)
        scaler.unscale_(optimizer)
        if (i + 1) % k == 0:
            run_step(fast, optimizer, scaler)
        if (i + 1) % k == 0:
            scaler.update()
            scaler.unscale_(optimizer)
            model.zero_grad()


def train(loader, fast, k):
    model = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6, momentum=0.9)
    scaler = GradScaler("cpu", enabled=fast)
    fit(loader, model, criterion, optimizer, scaler, fast, k)
