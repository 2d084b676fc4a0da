import math
import sys

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(6, 16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(20):
    x = torch.randn(8, 6) * 400
    with torch.autocast("cpu", dtype=torch.float16):
        out = model(x)
        loss = (out * out * 4).mean()  # fault: overflow AMP510
    value = loss.item()
    if not math.isfinite(value):
        sys.exit("the loss is not finite")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
