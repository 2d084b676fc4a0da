# flags: {"use_amp": (True, False)}
import torch
from torch import nn


def fit(loader, model, criterion, opt, grad_scaler, use_amp):
    for epoch in range(3):
        opt.zero_grad()
        done = 0
        while True:
            x, y = loader[done]
            done += 1
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=use_amp):
                out = model(x)
                for p in model.parameters():
                    if p.grad is not None:
                        p.grad.clamp_(-1.0, 1.0)
                loss = criterion(out, y)
            grad_scaler.scale(loss / 4).backward()
            if done % 4 == 0:
                break
        grad_scaler.unscale_(opt)
        grad_scaler.step(opt)
        grad_scaler.update()


def train(loader, use_amp):
    model = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    opt = torch.optim.SGD(model.parameters(), lr=1e-6)
    grad_scaler = torch.amp.GradScaler("cpu")
    fit(loader, model, criterion, opt, grad_scaler, use_amp)
