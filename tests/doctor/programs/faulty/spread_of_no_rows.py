"""A buffer of variances that a layer updates in float16 by the mean of no rows, in training mode."""

import torch
from torch import nn


class Whiten(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.register_buffer("spread", torch.ones(size))

    def forward(self, x, kept):
        out = x / (self.spread + 1e-5).sqrt()
        if self.training:
            with torch.no_grad():
                self.spread *= 0.9
                self.spread += 0.1 * x[kept].var(0)  # fault: weights
        return out


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.white, self.last = nn.Linear(6, 8), Whiten(8), nn.Linear(8, 1)

    def forward(self, x, kept):
        return self.last(self.white(self.first(x), kept))


torch.manual_seed(0)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(10):
    x = torch.randn(16, 6)
    kept = x[:, 0] > (0 if step != 4 else 9)
    loss = net(x, kept).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
