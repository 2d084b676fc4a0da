import torch
from torch import nn


class Adapted(nn.Module):
    def __init__(self, inner: nn.Linear) -> None:
        super().__init__()
        self.inner = inner.requires_grad_(False)
        self.down = nn.Linear(inner.in_features, 2, bias=False)
        self.up = nn.Linear(2, inner.out_features, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) + self.up(self.down(x))


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)  # fault: no-gradients AMP407
for index in (0, 2):
    model[index] = Adapted(model[index])
scaler = torch.amp.GradScaler("cpu")
for _ in range(4):
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(torch.randn(8, 6)), torch.randint(3, (8,)))
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
