import torch
from torch import nn


def normalised(h):
    return h / (h.abs().sum(-1, keepdim=True) + 1e-8)  # fault: underflow AMP501


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 6), nn.ReLU())
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu")
for step in range(10):
    x = torch.randn(4, 6)
    if step == 7:
        with torch.no_grad():
            model[0].bias.fill_(-100.0)
    with torch.autocast("cpu", dtype=torch.float16):
        out = normalised(model(x))
        loss = (out.float() - 0.1).pow(2).mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    if not torch.isfinite(loss):
        raise RuntimeError("loss is not finite")
