"""The training loss is fine, the test loss is NaN."""

import torch
from torch import nn


class Energy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 2)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        hidden = self.first(inputs)
        if self.training:
            hidden = hidden.float()
        hidden = hidden * hidden
        return self.last(hidden / (1 + hidden.mean()))


torch.manual_seed(0)
model = Energy()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
batches = [(torch.randn(16, 8) * 300, torch.randint(0, 2, (16,))) for _ in range(20)]

for inputs, targets in batches:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(inputs).float(), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

model.eval()
total = 0.0
with torch.inference_mode():
    for inputs, targets in batches:
        with torch.autocast("cpu", dtype=torch.float16):
            total += nn.functional.cross_entropy(model(inputs).float(), targets).item()
print(f"test loss {total / len(batches):.3f}")
