import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
factor, skipped = 2.0**20, 0
for step in range(40):
    x = torch.randn(8, 16) * (1 + step / 8)
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        out = model(x)
    loss = (out.float() - x.sum(1, keepdim=True)).square().mean()
    (loss * factor).backward()
    for parameter in model.parameters():
        parameter.grad /= factor
    if all(bool(parameter.grad.isfinite().all()) for parameter in model.parameters()):
        optimizer.step()
    else:
        factor, skipped = factor / 2, skipped + 1
assert skipped
