"""The exponential of 100 is too large for float32, too."""

import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu")
for step in range(5):
    x = torch.full((8, 4), float(step))
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        out = (model(x) - model(x)) + (100.0 if step == 3 else 1.0)
        loss = out.exp().mean().log()  # fault: math
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
