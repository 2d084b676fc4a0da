import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu")
for step in range(20):
    x = torch.randn(4, 8)
    with torch.autocast("cpu", dtype=torch.float16):
        out = model(x)
        loss = torch.log(out.float().clamp(max=0).abs()).mean()
    loss = torch.nan_to_num(loss, nan=0.0, posinf=0.0, neginf=0.0)  # fault: hidden AMP507
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    for p in model.parameters():
        p.grad.nan_to_num_()
    scaler.step(optimizer)
    scaler.update()
print("finished", float(loss.detach()))
