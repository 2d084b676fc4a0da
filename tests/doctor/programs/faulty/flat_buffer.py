import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
parameters = list(model.parameters())
flat = torch.cat([each.detach().flatten() for each in parameters]).requires_grad_()
flat.grad = torch.zeros_like(flat)
at = 0
for each in parameters:
    each.data = flat.data[at : at + each.numel()].view_as(each)
    each.grad = flat.grad[at : at + each.numel()].view_as(each)
    at += each.numel()
optimizer = torch.optim.SGD([flat], lr=0.1)
scaler = torch.amp.GradScaler("cpu")
for step in range(5):
    optimizer.zero_grad()  # fault: no-gradients AMP407
    with torch.autocast("cpu", dtype=torch.float16):
        loss = model(torch.randn(4, 4)).square().mean()
    scaler.scale(loss.float()).backward()
    scaler.step(optimizer)
    scaler.update()
