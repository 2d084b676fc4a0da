"""The likelihood of a sequence is a product of small numbers, and only its logarithm is a moderate one."""

import torch
from torch import nn


class Chain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.read, self.move = nn.Linear(4, 6), nn.Parameter(torch.randn(6, 6) * 0.1)

    def forward(self, steps: torch.Tensor) -> torch.Tensor:
        seen = (self.read(steps) * 0.1).softmax(-1) * 0.2
        state = seen[:, 0]
        for each in seen[:, 1:].unbind(1):
            state = torch.einsum("bs,sr->br", state, self.move.softmax(-1)) * each
        return -state.sum(-1).log().mean()  # fault: underflow


torch.manual_seed(0)
model = Chain()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu")
for _ in range(4):
    with torch.autocast("cpu", dtype=torch.float16):
        loss = model(torch.randn(16, 22, 4))
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    print(loss.item())
