"""Trains in float16 on a device that is not CUDA, here the CPU."""

import torch
from torch import nn

torch.manual_seed(0)
device = "cpu"  # or "xpu", "mps"
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler()

for _ in range(50):
    inputs = torch.randn(64, 32, device=device)
    optimizer.zero_grad()
    with torch.autocast(device, dtype=torch.float16):
        outputs = model(inputs)
        loss = nn.functional.mse_loss(outputs, 1e-4 * inputs[:, :1])
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
