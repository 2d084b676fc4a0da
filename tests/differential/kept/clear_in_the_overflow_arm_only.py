# flags: {}
import torch
from torch import nn


def train(loader):
    model = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    scaler = torch.amp.GradScaler("cpu")
    for x, y in loader:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if not torch.isfinite(norm):
            scaler.update()
            for p in model.parameters():
                p.grad = None
            continue
        scaler.step(optimizer)
        scaler.update()
