import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
amp = torch.autocast("cpu", dtype=torch.bfloat16)  # fault: casts-nothing AMP305
for step in range(5):
    loss = nn.functional.cross_entropy(model(torch.randn(4, 4)), torch.randint(0, 2, (4,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
