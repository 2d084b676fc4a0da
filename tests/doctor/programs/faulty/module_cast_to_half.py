import torch
from torch import nn


class Scale(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("floor", torch.full((1,), 2e-8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * (x.square().mean(1, keepdim=True) + self.floor).rsqrt()  # fault: underflow AMP501


torch.manual_seed(0)
model = nn.Sequential(Scale(), nn.Linear(6, 3)).half()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(20):
    x = torch.randn(8, 6).half()
    x[2] *= step != 7
    loss = (model(x).float() - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
