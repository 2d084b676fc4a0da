import torch
from torch import nn


class Slow:
    def __init__(self, inner):
        self.inner, self.param_groups = inner, inner.param_groups

    def step(self):
        self.inner.step()

    def zero_grad(self):
        self.inner.zero_grad()


torch.manual_seed(0)
model = nn.Linear(4, 2)
inner = torch.optim.SGD(model.parameters(), lr=0.1)
optimizer = Slow(inner)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
for _ in range(6):
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(torch.randn(8, 4)).float(), torch.randint(2, (8,)))
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(inner)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)  # fault: protocol AMP421
    scaler.update()
