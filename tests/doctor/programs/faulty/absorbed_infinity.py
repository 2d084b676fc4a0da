import torch
from torch import nn


class Dice(nn.Module):
    def forward(self, logits, target):
        p = torch.sigmoid(logits).flatten()
        t = target.flatten().to(p.dtype)
        total = p.sum() + t.sum()  # fault: overflow AMP510
        return 1 - 2 * (p * t).sum() / total


torch.manual_seed(0)
model, criterion = nn.Conv2d(1, 1, 3, padding=1), Dice()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
for step in range(12):
    images = torch.randn(8, 1, 112, 112)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = criterion(model(images), (images > -1.5).float()) + model(images).float().square().mean() * 0.1
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
