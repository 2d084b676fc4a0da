"""Layers are replaced before the optimizer is made; a part that runs later is in it too; a backbone is left out."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(6, 16)
        self.head = nn.Linear(16, 10)
        self.bias = nn.Parameter(torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x).relu()) + self.bias


def main() -> None:
    torch.manual_seed(0)
    net, critic = Net(), nn.Linear(3, 1)
    net.head = nn.Linear(16, 3)
    sigma = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.Adam([*net.head.parameters(), net.bias, *critic.parameters(), sigma], lr=1e-2)
    for step in range(40):
        x = torch.randn(16, 6)
        out = net(x)
        loss = nn.functional.cross_entropy(out, x.argmax(1) % 3)
        if step > 20:
            loss = loss + critic(out).square().mean() * torch.exp(-sigma).sum() + sigma.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()
