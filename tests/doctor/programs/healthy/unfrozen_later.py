import torch
from torch import nn

torch.manual_seed(0)
body, head = nn.Linear(8, 16), nn.Linear(16, 2)
of_body = torch.optim.SGD(body.parameters(), lr=0.05)
of_head = torch.optim.SGD(head.parameters(), lr=0.05)
body.requires_grad_(False)
x = torch.randn(64, 8)
y = (x[:, 0] > 0).long()
for step in range(24):
    if step == 12:
        body.requires_grad_(True)
    rows = torch.randint(0, 64, (16,))
    loss = nn.functional.cross_entropy(head(body(x[rows]).tanh()), y[rows])
    for each in (of_body, of_head):
        each.zero_grad()
    loss.backward()
    for each in (of_body, of_head):
        each.step()
