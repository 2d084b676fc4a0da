import torch
from torch import nn

torch.manual_seed(1)
x = torch.randn(512, 6)
y = (x[:, 0] * x[:, 1] + 0.1 * torch.randn(512)).tanh()
model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1), nn.Tanh())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, (1 + step) / 20))
for step in range(600):
    rows = torch.randint(0, 512, (32,))
    loss = nn.functional.mse_loss(model(x[rows])[:, 0], y[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
