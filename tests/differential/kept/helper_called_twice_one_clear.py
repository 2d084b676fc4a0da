# flags: {}
import torch
from torch import nn


def run(loss, optimizer, scaler):
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()


def train(loader):
    model = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    scaler = torch.amp.GradScaler("cpu")
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        run(loss, optimizer, scaler)
        loss_aux = criterion(model(x), y)
        run(loss_aux, optimizer, scaler)
