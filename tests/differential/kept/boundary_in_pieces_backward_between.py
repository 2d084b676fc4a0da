# flags: {"k": (1, 2)}
import torch
from torch import nn


def train(loader, k):
    model = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    scaler = torch.amp.GradScaler("cpu")
    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x), y)
        scaler.scale(loss).backward(retain_graph=True)
        if (i + 1) % k == 0:
            scaler.unscale_(optimizer)
        scaler.scale(loss).backward()
        if (i + 1) % k == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
