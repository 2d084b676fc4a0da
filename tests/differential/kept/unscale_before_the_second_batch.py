# flags: {"k": (1, 2, 3), "fast": (True, False)}
import torch
from torch import autocast
from torch import nn
from torch.amp import GradScaler


def advance(grad_scaler, opt):
    grad_scaler.step(opt)


def adapt(grad_scaler):
    grad_scaler.update()


def train(loader, fast, k):
    model = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    opt = torch.optim.SGD(model.parameters(), lr=1e-6)
    grad_scaler = GradScaler("cpu", enabled=fast)
    for i, (x, y) in enumerate(loader):
        if i == 0:
            continue
        with autocast("cpu", dtype=torch.bfloat16, enabled=fast):
            out = model(x)
            loss = criterion(out, y)
        if (i + 1) % k == 0:
            grad_scaler.unscale_(opt)
        grad_scaler.scale(loss / k).backward(retain_graph=True)
        (loss / k).backward()
        if (i + 1) % k == 0:
            nn.utils.clip_grad_value_(list(model.parameters()), 1.0)
            advance(grad_scaler, opt)
            adapt(grad_scaler)
        if (i + 1) % k == 0:
            opt.zero_grad()
