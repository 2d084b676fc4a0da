import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 2)

    def forward(self, x):
        h = self.a(x)
        if self.training:
            h = h.float()
        h = h * h  # fault: overflow AMP504
        return self.b(h / (1 + h.mean()))


torch.manual_seed(0)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
scaler = torch.amp.GradScaler("cpu")
data = [(torch.randn(4, 8) * 800, torch.randint(0, 2, (4,))) for _ in range(4)]
for x, y in data:
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
model.eval()
total = 0.0
with torch.no_grad():
    for x, y in data:
        with torch.autocast("cpu", dtype=torch.float16):
            total += nn.functional.cross_entropy(model(x), y).item()
print("test loss", total / len(data))
