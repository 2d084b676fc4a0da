import torch
from torch import nn

RATE, BATCH = 0.02, 128


def scaled(batch_size: int) -> float:
    return RATE * batch_size


def make(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=scaled(BATCH), momentum=0.9)  # fault: divergence


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 1))
optimizer = make(model)
for _ in range(80):
    x = torch.randn(BATCH, 6)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(x)
    loss = nn.functional.mse_loss(out.float(), x.prod(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
