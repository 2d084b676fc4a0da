import torch
from torch import nn

FACTOR = 2.0**18


def train(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    for step in range(40):
        x = torch.randn(8, 16) * (1 + step)
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            out = model(x)
        loss = (out.float() - x.sum(1, keepdim=True)).square().mean()
        (loss * FACTOR).backward()  # fault: overflow
        for parameter in model.parameters():
            parameter.grad /= FACTOR
        optimizer.step()


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
train(model, torch.optim.SGD(model.parameters(), lr=1e-6))
