# flags: {"use_amp": (True, False)}
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
    opt1 = torch.optim.SGD(model.body.parameters(), lr=1e-6)
    opt2 = torch.optim.SGD(model.head.parameters(), lr=1e-6)
    scaler = torch.amp.GradScaler("cpu", enabled=use_amp)
    for x, y in loader:
        opt1.zero_grad()
        opt2.zero_grad()
        loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_value_(model.body.parameters(), 1.0)
        current = opt1
        scaler.step(current)
        current = opt2
        scaler.step(current)
        scaler.update()
