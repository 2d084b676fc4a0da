import torch
from torch import nn

torch.manual_seed(0)
backbone, head = nn.Linear(4, 8), nn.Linear(8, 2)
optimizer = torch.optim.SGD(backbone.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu")
for step in range(3):
    with torch.autocast("cpu", dtype=torch.float16):
        features = backbone(torch.randn(4, 4)).detach()
        loss = nn.functional.cross_entropy(head(features), torch.randint(0, 2, (4,)))
    scaler.scale(loss).backward()
    scaler.step(optimizer)  # fault: no-gradients AMP407
    scaler.update()
