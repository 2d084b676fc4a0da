import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 4)

    def forward(self, x, cache=None):
        if cache is not None:
            x = cache.update(x)
        return self.linear(x)  # fault: data


torch.manual_seed(0)
model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
targets = torch.randint(0, 4, (16,))
data = torch.randn(5, 16, 8)
data[3, 6, 2] = float("inf")
for x in data:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(x), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
