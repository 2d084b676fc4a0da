import copy

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))


def train(spread, steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    model.train()
    for _ in range(steps):
        x = spread * torch.randn(32, 6)
        loss = nn.functional.cross_entropy(model(x), (x[:, 0] > 0).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return copy.deepcopy(model.state_dict())


wide, narrow = train(3.0, 40), train(0.3, 40)
mixed = {name: each + 1.4 * (narrow[name] - each) for name, each in wide.items() if each.is_floating_point()}
model.load_state_dict(mixed, strict=False)  # fault: weights
model.eval()
with torch.no_grad():
    x = torch.randn(64, 6)
    print(nn.functional.cross_entropy(model(x), (x[:, 0] > 0).long()).item())
