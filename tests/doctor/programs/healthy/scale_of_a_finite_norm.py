"""A controller of the scale that leaves out what is infinite; two scalers, one of which starts too high."""

import math

import torch
from torch import nn

torch.manual_seed(0)
model, other = nn.Linear(4, 1), nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
second = torch.optim.Adam(other.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24)
tail = torch.amp.GradScaler("cpu", init_scale=2.0**20)
for step in range(60):
    x = torch.randn(8, 4).requires_grad_()
    with torch.autocast("cpu", dtype=torch.float16):
        out, score = model(x), other(x)
    optimizer.zero_grad()
    scaler.scale((out.float() - 1).square().mean()).backward()
    scaler.unscale_(optimizer)
    norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm().item()
    scaler.step(optimizer)
    scaler.update(2.0 ** round(math.log2(2**14 / norm)) if step % 5 == 4 and 0 < norm < 1e6 else None)
    scaled = torch.autograd.grad(tail.scale(score.sum()), x, create_graph=True)[0]
    penalty = ((scaled.float() / tail.get_scale()).norm(dim=1) - 1).square().mean()
    second.zero_grad()
    tail.scale(penalty).backward()
    tail.step(second)
    tail.update()
