"""Keeps all parameters in one flat tensor, which the optimizer steps."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
flat = torch.cat([parameter.detach().flatten() for parameter in model.parameters()]).requires_grad_()
flat.grad = torch.zeros_like(flat)
start = 0
for parameter in model.parameters():
    end = start + parameter.numel()
    parameter.data = flat.data[start:end].view_as(parameter)
    parameter.grad = flat.grad[start:end].view_as(parameter)
    start = end
optimizer = torch.optim.SGD([flat], lr=0.1)
scaler = torch.amp.GradScaler("cpu")

for _ in range(5):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        outputs = model(torch.randn(16, 4))
    loss = outputs.float().square().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
