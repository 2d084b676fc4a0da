"""Each batch has the labels of one task only: all errors of the other one are NaN, and are left out."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(5, 2)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(40):
    x = torch.randn(16, 5)
    y = x[:, :2].clone()
    y[:, 1 if step % 4 else 0] = float("nan")
    errors = (model(x) - y.nan_to_num()).square().masked_fill(y.isnan(), float("nan"))
    first, second = errors.unbind(1)
    loss = first.nansum() / (~first.isnan()).sum().clamp(min=1) + torch.where(second.isnan(), 0.0, second).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
