import torch
from torch import nn


class Weights(nn.Module):
    def __init__(self, steps: int) -> None:
        super().__init__()
        kept = torch.cumprod(1 - torch.linspace(1e-4, 0.02, steps), 0)
        self.register_buffer("kept", kept.half())

    def forward(self, step: torch.Tensor) -> torch.Tensor:
        noise = 1 - self.kept[step]
        return -noise.float().log()  # fault: underflow


torch.manual_seed(0)
weights = Weights(100)
model = nn.Linear(4, 4)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(30):
    x = torch.randn(8, 4)
    step = torch.randint(0, 100, (8,))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(x)
    loss = (weights(step)[:, None] * (out.float() - x).square()).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
