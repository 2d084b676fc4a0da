import math

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        scores = q @ k.transpose(-2, -1)  # fault: overflow AMP510
        scores = scores / math.sqrt(x.shape[-1])
        return scores.softmax(-1) @ v


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Attention(32)
        self.head = nn.Linear(32, 4)

    def forward(self, x):
        return self.head(self.block(x).mean(1))


def main():
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    scaler = torch.amp.GradScaler("cpu")
    for step in range(20):
        x, y = torch.randn(4, 6, 32), torch.randint(0, 4, (4,))
        if step >= 11:
            x = x * 900
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        print(step, loss.item())


if __name__ == "__main__":
    main()
