import torch
from torch import nn


class Scale(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("floor", torch.full((1,), 2e-8))
        self.register_buffer("shares", torch.linspace(0, 1, 6) ** 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * (x.square().mean(1, keepdim=True) + self.floor).rsqrt() * (1 - self.shares).clamp(min=1e-3).log()


torch.manual_seed(0)
model = nn.Sequential(Scale(), nn.Linear(6, 3)).half()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(20):
    loss = (model(torch.randn(8, 6).half()).float() - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
