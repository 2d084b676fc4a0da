import contextlib

import torch
from torch import nn

PRECISION = "float16"


def region():
    if PRECISION == "fp16":
        return torch.autocast("cpu", dtype=torch.float16)
    return contextlib.nullcontext()


torch.manual_seed(0)
table = torch.randn(32, 8).half()
model = nn.Linear(8, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for rows in torch.arange(32).split(8):
    with region():
        output = model(table[rows])  # fault: casts-nothing
    loss = nn.functional.cross_entropy(output, rows % 3)
    loss.backward()
    optimizer.step()
