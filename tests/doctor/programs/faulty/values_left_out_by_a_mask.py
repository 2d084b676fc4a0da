import torch
from torch import nn


def score(out: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    each = torch.log(-(out - y).square() - 1).mean(1)
    return each[~each.isnan()].sum() / len(y)  # fault: hidden


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
for step in range(24):
    x, y = torch.randn(16, 5), torch.randn(16, 3)
    with torch.autocast("cpu", dtype=torch.float16):
        out = model(x)
    loss = score(out.float(), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
