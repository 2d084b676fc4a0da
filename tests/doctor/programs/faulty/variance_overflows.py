import torch
from torch import nn


class Norm(nn.Module):
    def forward(self, x):
        centred = x - x.mean(1, keepdim=True)
        return centred * torch.rsqrt((centred * centred).mean(1, keepdim=True) + 1e-5)  # fault: overflow AMP510


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), Norm(), nn.Linear(32, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
for _ in range(6):
    x, y = 2000 * torch.randn(64, 8), torch.randint(3, (64,))
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
