import torch
from torch import nn

torch.manual_seed(0)
table, head = nn.Embedding.from_pretrained(torch.randn(16, 8)), nn.Linear(8, 2)
of_table = torch.optim.SGD(table.parameters(), lr=0.05)  # fault: no-gradients AMP407
of_head = torch.optim.SGD(head.parameters(), lr=0.05)
for step in range(24):
    rows = torch.randint(0, 16, (8,))
    loss = nn.functional.cross_entropy(head(table(rows)), rows % 2)
    for each in (of_table, of_head):
        each.zero_grad()
    loss.backward()
    for each in (of_table, of_head):
        each.step()
