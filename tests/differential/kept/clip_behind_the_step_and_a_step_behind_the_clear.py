# flags: {"use_amp": (True, False)}
import contextlib
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(1, 1)
        self.head = nn.Linear(1, 1)
    def forward(self, x):
        return self.head(self.body(x))


def train(loader, use_amp):
    model = Net()
    criterion = nn.L1Loss()
    optimizer_a = torch.optim.SGD(model.body.parameters(), lr=1e-6)
    optimizer_b = torch.optim.SGD(model.head.parameters(), lr=1e-6, momentum=0.9)
    grad_scaler = torch.amp.GradScaler("cpu", enabled=use_amp)
    for x, y in loader:
        model.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16) if use_amp else contextlib.nullcontext():
            optimizer_b.step()
            loss = criterion(model(x), y)
        grad_scaler.scale(loss).backward()
        grad_scaler.unscale_(optimizer_a)
        torch.nn.utils.clip_grad_value_(model.body.parameters(), 1.0)
        grad_scaler.unscale_(optimizer_b)
        grad_scaler.step(optimizer_a)
        grad_scaler.step(optimizer_b)
        grad_scaler.update()
        torch.nn.utils.clip_grad_value_(model.head.parameters(), 1.0)
