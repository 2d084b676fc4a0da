import torch
from torch import nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU())
        self.head = nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x))


def main() -> None:
    torch.manual_seed(0)
    net = Net()
    groups = [{"params": net.body.parameters(), "lr": 0.01}, {"params": net.head.parameters()}]
    optimizer = torch.optim.SGD(groups, lr=0.1)  # fault: no-gradients
    net.head = nn.Linear(16, 3)
    for _ in range(12):
        x = torch.randn(16, 6)
        loss = nn.functional.cross_entropy(net(x), x.argmax(1) % 3)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()
