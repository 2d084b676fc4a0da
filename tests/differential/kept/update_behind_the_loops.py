# flags: {"k": (1, 2), "fast": (True, False)}
import torch
from torch import autocast, nn
from torch.amp import GradScaler


def adapt(scaler):
    scaler.update()


def fit(loader, model, criterion, optimizer, scaler, fast, k):
    for epoch in range(2):
        for i, (x, y) in enumerate(loader):
            with autocast("cpu", dtype=torch.bfloat16, enabled=fast):
                out = model(x)
                loss = criterion(out, y)
            scaler.scale(loss / k).backward()
            with autocast("cpu", dtype=torch.bfloat16, enabled=fast):
                loss_aux = criterion(model(x * 1.5), y)
            scaler.scale(loss_aux / k).backward()
            if (i + 1) % k == 0:
                scaler.unscale_(optimizer)
            if (i + 1) % k == 0:
                optimizer.step()
                optimizer.zero_grad()
    scaler.update()


def train(loader, fast, k):
    model = nn.Linear(1, 1)
    criterion = nn.L1Loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    scaler = GradScaler("cpu")
    fit(loader, model, criterion, optimizer, scaler, fast, k)
