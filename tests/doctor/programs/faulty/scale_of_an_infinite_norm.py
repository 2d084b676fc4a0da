import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20)
losses = []
for step in range(30):
    x = torch.randn(32, 8)
    if step == 7:
        x[3] *= 1e30
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x).float(), x.argmax(1) % 2)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    norm = torch.stack([p.grad.abs().max() for p in model.parameters()]).max()
    scaler.update(float(scaler.get_scale() * 1000 / norm))  # fault: scale
