import torch
from torch import nn


class Prototypes(nn.Module):
    def __init__(self, points: torch.Tensor, labels: torch.Tensor, classes: int) -> None:
        super().__init__()
        centers = torch.stack([points[labels == each].mean(0) for each in range(classes)])  # fault: weights
        self.centers = nn.Parameter(centers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return -torch.cdist(x, self.centers)


torch.manual_seed(0)
points, labels = torch.randn(32, 5), torch.randint(0, 3, (32,))
model = Prototypes(points, labels, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(5):
    loss = nn.functional.cross_entropy(model(points), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
