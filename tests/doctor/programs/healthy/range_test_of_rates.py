import torch
from torch import nn

torch.manual_seed(1)
x = torch.randn(512, 6)
y = x[:, :2].sum(1)
model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.06**step)
best = float("inf")
for step in range(300):
    rows = torch.randint(0, 512, (64,))
    loss = nn.functional.mse_loss(model(x[rows])[:, 0], y[rows])
    if loss.item() > 4 * best and step > 20:
        break
    best = min(best, loss.item())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
