import torch
from torch import nn

torch.manual_seed(0)
table = nn.Embedding(20, 8)
head = nn.Linear(8, 1)
slow = torch.optim.Adam(table.parameters(), lr=1e-3)
fast = torch.optim.SGD(head.parameters(), lr=30.0)  # fault: divergence
for _ in range(60):
    ids = torch.randint(0, 20, (32,))
    loss = nn.functional.mse_loss(head(table(ids)), ids.float()[:, None] / 20)
    for optimizer in (slow, fast):
        optimizer.zero_grad()
    loss.backward()
    for optimizer in (fast, slow):
        optimizer.step()
