import math

import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        weight = torch.full((4, 6), math.nan)
        self.weight = nn.Parameter(weight)
        self.register_buffer("mask", torch.full((4, 4), -math.inf).triu(1))
        nn.init.normal_(self.weight, std=0.3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight.t()


torch.manual_seed(0)
model = Layer()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(20):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(torch.randn(8, 6))
    loss = out.float().square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
