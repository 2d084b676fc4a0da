import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Conv1d(2, 8, 3), nn.ReLU(), nn.Conv1d(8, 8, 3), nn.Flatten(), nn.Linear(32, 1))
optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-3)  # fault: no-gradients
for index in (0, 2):
    model[index].weight = nn.Parameter(nn.init.orthogonal_(torch.empty_like(model[index].weight)))
scaler = torch.amp.GradScaler("cpu")
for step in range(10):
    with torch.autocast("cpu", dtype=torch.float16):
        out = model(torch.randn(4, 2, 8))
        loss = (out.float() - 1).square().mean()
    optimizer.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
