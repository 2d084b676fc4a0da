import torch
from torch import nn

torch.manual_seed(0)
shares = torch.tensor([0.3, 0.25, 0.0, 0.45]).half()
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(10):
    prior = shares.float().log()  # fault: math
    x = torch.randn(8, 4)
    loss = nn.functional.cross_entropy(model(x) * prior, torch.randint(0, 4, (8,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
