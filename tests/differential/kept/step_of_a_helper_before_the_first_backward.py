# flags: {"k": (1, 2, 3), "fast": (True, False), "warm": (True, False)}
import torch
from torch import nn


def advance(grad_scaler, opt):
    grad_scaler.step(opt)


def adapt(grad_scaler):
    grad_scaler.update()


def fit(loader, model, criterion, opt, grad_scaler, fast, k, warm):
    for i, (x, y) in enumerate(loader):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=fast):
            loss = criterion(model(x), y)
            if warm:
                advance(grad_scaler, opt)
        grad_scaler.scale(loss / k).backward()
        if (i + 1) % k == 0:
            grad_scaler.unscale_(opt)
            for p in model.parameters():
                if p.grad is not None:
                    p.grad.clamp_(-1.0, 1.0)
            advance(grad_scaler, opt)
            adapt(grad_scaler)
        if (i + 1) % k == 0:
            adapt(grad_scaler)
        if (i + 1) % k == 0:
            opt.zero_grad()


def train(loader, fast, k, warm):
    model = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    opt = torch.optim.SGD(model.parameters(), lr=1e-6)
    grad_scaler = torch.amp.GradScaler("cpu", enabled=fast)
    fit(loader, model, criterion, opt, grad_scaler, fast, k, warm)
