import torch
from torch import nn
from torch.optim import lr_scheduler


def train(model, x, y):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    warm = lr_scheduler.LambdaLR(optimizer, lambda step: 1.06**step)  # fault: divergence
    plateau = lr_scheduler.StepLR(optimizer, step_size=10_000)
    for step in range(300):
        loss = (model(x) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        warm.step() if step < 290 else plateau.step()


torch.manual_seed(0)
x = torch.randn(64, 4)
train(nn.Linear(4, 1), x, x.sum(1, keepdim=True) + torch.randn(64, 1))
