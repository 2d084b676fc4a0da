import torch
from torch import nn

torch.manual_seed(0)
table = torch.randn(32, 8).half()
model = nn.Linear(8, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
for rows in torch.arange(32).split(8):
    with torch.autocast("cuda", dtype=torch.float16):  # fault: casts-nothing AMP203
        loss = nn.functional.cross_entropy(model(table[rows]), rows % 3)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
