import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
for step in range(60):
    for group in optimizer.param_groups:
        group["lr"] = 0.2 * (step + 1)
    x = torch.randn(16, 8)
    loss = (model(x) - x.sum(-1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()  # fault: divergence
