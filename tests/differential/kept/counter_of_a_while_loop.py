# flags: {"use_amp": (True, False)}
import torch
from torch import nn


def train(loader, use_amp):
    model = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    opt = torch.optim.SGD(model.parameters(), lr=1e-6)
    grad_scaler = torch.amp.GradScaler("cpu", enabled=use_amp)
    for epoch in range(3):
        opt.zero_grad(set_to_none=True)
        done = 0
        while True:
            x, y = loader[done]
            done += 1
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=use_amp):
                loss = criterion(model(x), y)
            if done % 4 == 0:
                torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], 1.0)
                break
            grad_scaler.scale(loss / 4).backward()
        grad_scaler.unscale_(opt)
        grad_scaler.step(opt)
