import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu")
for step in range(8):
    with torch.autocast("cpu", dtype=torch.float16):
        out = model(torch.randn(4, 4))
        loss = nn.functional.cross_entropy(out, torch.randint(0, 2, (4,)))
    scaler.scale(loss / 4).backward()
    scaler.unscale_(optimizer)  # fault: protocol AMP405
    if step % 4 == 3:
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
