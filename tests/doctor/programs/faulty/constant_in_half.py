import torch
from torch import nn

EPSILON = torch.tensor(1e-9, dtype=torch.float16)


def direction(x: torch.Tensor) -> torch.Tensor:
    length = x.norm(dim=1, keepdim=True) + EPSILON
    return x / length  # fault: underflow AMP501


torch.manual_seed(0)
model = nn.Linear(6, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(20):
    x = torch.randn(8, 6).half()
    x[3] *= step != 9
    loss = (model(direction(x).float()) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
