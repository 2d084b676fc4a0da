import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, x):
        h = self.linear(x)
        return h - (h * h).mean(-1, keepdim=True) * 0.01  # fault: overflow AMP510


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(3)])
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x * self.gain, use_reentrant=False)
        return self.head(x)


torch.manual_seed(0)
model = Model()
model.gain = 1.0
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu")
for step in range(12):
    if step == 8:
        model.gain = 900.0
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(torch.randn(4, 16)), torch.randint(0, 3, (4,)))
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    assert step < 10 or loss < 1000, "bad loss"
