import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(6, 16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
for step in range(20):
    x = torch.randn(8, 6) * (400 if step == 11 else 1)
    with torch.autocast("cpu", dtype=torch.float16):
        out = model(x)
        loss = (out * out * 4).mean()  # fault: overflow AMP510
    if torch.isnan(loss) or torch.isinf(loss):
        break
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
