import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=4.0)  # fault: divergence
for step in range(120):
    for group in optimizer.param_groups:
        group["lr"] = 4.0 * min(1, (step + 1) / 60)
    x = torch.randn(32, 8)
    loss = nn.functional.mse_loss(model(x), x.square().sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
