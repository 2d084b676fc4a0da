import torch
from torch import nn


@torch.autocast("cpu", dtype=torch.bfloat16)  # fault: protocol AMP309
def epoch(model, optimizer):
    for _ in range(6):
        x, y = torch.randn(8, 16), torch.randint(0, 4, (8,))
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
epoch(model, torch.optim.SGD(model.parameters(), lr=0.1))
