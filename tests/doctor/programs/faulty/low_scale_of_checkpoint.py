"""The run that is resumed had lost its scale: its steps were skipped."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
saved = {**scaler.state_dict(), "scale": 2.0**-20}
scaler.load_state_dict(saved)  # fault: scale
inputs, targets = torch.randn(64, 16), torch.randint(4, (64,))
for _ in range(60):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(inputs), targets)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
