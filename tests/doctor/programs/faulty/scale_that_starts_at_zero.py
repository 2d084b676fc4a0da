import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
target, clip = 0.0, 1.0
scaler = torch.amp.GradScaler("cpu", init_scale=float(target * 65536))  # fault: scale
for step in range(14):
    x = torch.randn(8, 4)
    with torch.autocast("cpu", dtype=torch.float16):
        out = model(x)
    loss = (out.float() - 1).square().mean()
    optimizer.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), clip)
    scaler.step(optimizer)
    scaler.update()
