import torch
from torch import nn


@torch.no_grad()
def adaptive_clip(parameters, factor=0.05):
    for p in parameters:
        limit = p.norm().clamp_min(1e-3) * factor
        norm = p.grad.norm()
        p.grad.copy_(torch.where(norm > limit, p.grad * (limit / norm), p.grad))  # fault: protocol AMP409


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=8192.0)
for step in range(8):
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(torch.randn(64, 8)), torch.randint(0, 2, (64,)))
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    adaptive_clip(model.parameters())
    scaler.step(optimizer)
    scaler.update()
