import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
state = torch.amp.GradScaler("cpu", init_scale=4096.0).state_dict()
scaler = torch.amp.GradScaler("cpu")
scaler.load_state_dict(state)
for step in range(30):
    if step == 15:
        scaler.load_state_dict(state | {"scale": 1024.0})
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(torch.randn(4, 8)), torch.randint(0, 2, (4,)))
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
