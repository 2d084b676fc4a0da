import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu", enabled=torch.cuda.is_available())  # fault: scaler-off AMP210
for _ in range(40):
    x = torch.randn(512, 8)
    with torch.autocast("cpu", dtype=torch.float16):
        output = model(x * 1e-3)
    loss = nn.functional.mse_loss(output.float(), 1e-3 * x[:, :1])
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
