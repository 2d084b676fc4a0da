import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler()  # fault: scaler-off AMP201
for step in range(5):
    with torch.autocast("cpu", dtype=torch.float16):
        out = model(torch.randn(4, 4))
        loss = nn.functional.cross_entropy(out.float(), torch.randint(0, 2, (4,))) * 1e-4
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
