# flags: {"clip": (True, False), "extra": (True, False), "use_amp": (True, False)}
import contextlib
import torch
from torch import nn


def train(loader, clip, extra, use_amp):
    model = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6, momentum=0.9)
    grad_scaler = torch.amp.GradScaler("cpu", enabled=use_amp)
    for x, y in loader:
        if clip:
            print("", end="")
        model.zero_grad()
        with contextlib.nullcontext() if not use_amp else torch.autocast("cpu", dtype=torch.bfloat16):
            out = model(x)
            loss = criterion(out, y)
        grad_scaler.scale(loss).backward()
        if clip:
            if extra:
                grad_scaler.unscale_(optimizer)
        if clip and extra:
            torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], max_norm=1.0)
        grad_scaler.step(optimizer)
        grad_scaler.update()
