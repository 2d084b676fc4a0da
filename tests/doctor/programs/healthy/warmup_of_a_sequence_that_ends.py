"""A warm-up in a sequence, which ends, and then a rate that falls."""

import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, SequentialLR

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
rising = LambdaLR(optimizer, lambda step: min(1, (step + 1) / 5))
scheduler = SequentialLR(optimizer, [rising, CosineAnnealingLR(optimizer, 100)], milestones=[20])
for _ in range(120):
    x = torch.randn(64, 4)
    loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True).sin())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
