import os
import tempfile

import torch
from torch import nn


def build():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


torch.manual_seed(0)
path = os.path.join(tempfile.mkdtemp(), "model.pt")
state = build().state_dict()
state["2.weight"][1, 3] = float("nan")
torch.save(state, path)

model = build()
model.load_state_dict(torch.load(path))  # fault: weights
optimizer = torch.optim.AdamW(model.parameters())
for step in range(4):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(torch.randn(4, 4))
    loss = nn.functional.cross_entropy(logits.float(), torch.randint(0, 2, (4,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
