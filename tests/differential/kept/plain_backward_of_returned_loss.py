# flags: {}
import torch
from torch import nn


def run_step(criterion, model, scaler, x, y):
    loss = criterion(model(x), y)
    scaler.scale(loss).backward(retain_graph=True)
    return loss


def train(loader):
    model = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    scaler = torch.amp.GradScaler("cpu")
    for x, y in loader:
        optimizer.zero_grad()
        loss = run_step(criterion, model, scaler, x, y)
        loss.backward()
        scaler.step(optimizer)
        scaler.update()
