"""A center that a loss keeps, made NaN by the mean of what is never confident."""

import torch
from torch import nn


class Centered:
    def __init__(self, size):
        self.center = torch.zeros(size)

    def __call__(self, out, y):
        return nn.functional.cross_entropy(out - self.center, y)

    @torch.no_grad()
    def update(self, out):
        sure = out[out.softmax(1).amax(1) > 0.9999]
        self.center = 0.9 * self.center + 0.1 * sure.mean(0)  # fault: weights


torch.manual_seed(0)
model = nn.Linear(6, 3)
criterion = Centered(3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(12):
    x = torch.randn(16, 6)
    out = model(x)
    loss = criterion(out, x.argmax(1) % 3)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    criterion.update(out)
