import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(6, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    x = torch.randn(16, 6)
    labels = torch.randn(16, 3)
    labels[torch.rand(16, 3) < 0.3] = float("nan")
    known = ~torch.isnan(labels)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(x if step < 6 else x[:, 1:])
    loss = (out.float() - labels)[known].square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
