import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
first = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    first.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    first.step()
model[0].requires_grad_(False)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)  # fault: no-gradients AMP407
model[2] = nn.Linear(8, 5)
for _ in range(6):
    loss = nn.functional.cross_entropy(model(torch.randn(8, 4)), torch.randint(5, (8,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
