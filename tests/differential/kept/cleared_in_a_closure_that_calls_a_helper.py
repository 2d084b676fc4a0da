# flags: {"k": (1, 2, 3), "fast": (True, False)}
import torch
from torch import nn


def divide(scaler, opt):
    scaler.unscale_(opt)


def clear(model):
    for p in model.parameters():
        p.grad = None


def train(loader, fast, k):
    model = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    opt = torch.optim.SGD(model.parameters(), lr=1e-6)
    scaler = torch.amp.GradScaler("cpu", enabled=fast)
    def run_step():
        if fast:
            clear(model)
    for i, (x, y) in enumerate(loader):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = criterion(model(x), y)
        loss = loss / k
        scaler.scale(loss).backward()
        if (i + 1) % k == 0:
            divide(scaler, opt)
        if (i + 1) % k == 0:
            scaler.step(opt)
            scaler.update()
        if (i + 1) % k == 0:
            run_step()
