"""What objects keep that is infinite, and meant so: a table of best distances, a mask, a list of all results."""

import torch
from torch import nn


class Nearest:
    def __init__(self, count):
        self.best = torch.full((count,), float("inf"))
        self.all = []

    def update(self, at, distance):
        self.best[at] = torch.minimum(self.best[at], distance)
        self.all.append(distance)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.full((4, 4), float("-inf")).triu(1))
        self.q = nn.Linear(4, 4)

    def forward(self, x):
        scores = self.q(x) @ x.transpose(1, 2) + self.mask
        return scores.softmax(-1) @ x


torch.manual_seed(0)
net, nearest = Net(), Nearest(8)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(20):
    x = torch.randn(4, 4, 4)
    out = net(x)
    loss = (out - x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        nearest.update(torch.randperm(8)[:4], (net(x) - x).square().mean((1, 2)))
        print(step, loss.item(), nearest.best.min().item(), nearest.best.max().item(), len(nearest.all))
