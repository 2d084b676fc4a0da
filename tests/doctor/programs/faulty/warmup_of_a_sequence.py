import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, SequentialLR

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
rising = LambdaLR(optimizer, lambda step: (step + 1) / 5)  # fault: divergence
falling = CosineAnnealingLR(optimizer, 100)
scheduler = SequentialLR(optimizer, [rising, falling], milestones=[500])
x = torch.randn(64, 4)
y = x.sum(1, keepdim=True).sin()
for _ in range(200):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
