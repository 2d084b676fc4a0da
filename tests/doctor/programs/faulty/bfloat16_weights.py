import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
model.to(torch.bfloat16)  # fault: underflow
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.0)
for _ in range(20):
    x = torch.randn(32, 16, dtype=torch.bfloat16)
    loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
