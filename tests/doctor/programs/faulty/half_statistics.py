import torch
from torch import nn

torch.manual_seed(0)
backbone = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
backbone(3000 * torch.randn(16, 1, 8, 8))
state = {name: each.half().float() for name, each in backbone.state_dict().items()}
backbone.load_state_dict(state)  # fault: weights
backbone.eval().requires_grad_(False)
head = nn.Linear(4, 2)
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
for _ in range(5):
    with torch.no_grad():
        features = backbone(3000 * torch.randn(16, 1, 8, 8))
    loss = nn.functional.cross_entropy(head(features), torch.randint(2, (16,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
