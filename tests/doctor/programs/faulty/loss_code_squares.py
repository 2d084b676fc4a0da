import sys

import torch
from torch import nn


def energy(prediction, target):
    difference = prediction - target
    return (difference * difference).mean()  # fault: overflow AMP510


def train_one_epoch(model, optimizer, scaler, batches):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            prediction = model(x)
            loss = energy(prediction, y.half())
        value = loss.item()
        if value != value or value == float("inf"):
            print("Loss is nan, stopping training")
            sys.exit(1)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


torch.manual_seed(0)
model = nn.Linear(8, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu")
batches = [(torch.randn(4, 8), torch.rand(4, 1) * 10) for _ in range(10)]
batches[6] = (torch.randn(4, 8), torch.full((4, 1), 400.0))
train_one_epoch(model, optimizer, scaler, batches)
