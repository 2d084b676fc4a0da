import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD([{"params": model.parameters(), "lr": 4.0}], lr=1e-3)  # fault: divergence
for step in range(120):
    optimizer.param_groups[0]["lr"] = 4.0 * min(1, (step + 1) / 60)
    x = torch.randn(32, 8)
    loss = nn.functional.mse_loss(model(x), x.square().sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
