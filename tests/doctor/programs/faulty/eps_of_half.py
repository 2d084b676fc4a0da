import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1)).half()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)  # fault: underflow
for _ in range(8):
    x = torch.randn(16, 8)
    loss = nn.functional.mse_loss(model(x.half()).float(), 0.01 * x[:, :1])
    optimizer.zero_grad()
    (0.01 * loss).backward()
    optimizer.step()
