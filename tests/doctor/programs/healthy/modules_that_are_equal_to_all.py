import torch
from torch import nn


class Metric(nn.Module):
    __hash__ = nn.Module.__hash__

    def __eq__(self, other):
        return True

    def forward(self, x):
        return x + 1


class Distance(nn.Module):
    def forward(self, x, y):
        return (x - y).square().mean()


torch.manual_seed(0)
model, metric, distance = nn.Linear(4, 4), Metric(), Distance()
weight = nn.Parameter(torch.randn(4, dtype=torch.complex64))
optimizer = torch.optim.SGD([*model.parameters(), weight], lr=0.01)
for _ in range(10):
    x, y = torch.randn(16, 4), torch.randn(16, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = distance(model(x), y) + weight.abs().sum()
    with torch.no_grad():
        metric(distance(x, y))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
