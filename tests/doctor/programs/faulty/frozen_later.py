import torch
from torch import nn

torch.manual_seed(0)
body, head = nn.Linear(6, 8), nn.Linear(8, 3)
of_body = torch.optim.SGD(body.parameters(), lr=0.1)
of_head = torch.optim.SGD(head.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
for step in range(8):
    body.requires_grad_(step < 4)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(head(body(torch.randn(8, 6))), torch.randint(3, (8,)))
    of_body.zero_grad()
    of_head.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(of_head)
    scaler.step(of_body)  # fault: no-gradients AMP407
    scaler.update()
