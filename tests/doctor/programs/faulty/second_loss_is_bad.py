import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(6, 16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
for step in range(9):
    x = torch.randn(8, 6) * (400 if step == 6 else 1)
    with torch.autocast("cpu", dtype=torch.float16):
        out = model(x)
        first = out.tanh().mean()
        second = (out * out * 4).mean()  # fault: overflow AMP510
    print(f"{second.item()}")
    optimizer.zero_grad()
    scaler.scale(first).backward(retain_graph=True)
    scaler.scale(second).backward()
    scaler.step(optimizer)
    scaler.update()
