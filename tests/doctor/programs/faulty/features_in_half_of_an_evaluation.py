"""A list of half features; a total in half that is only printed."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU())
head = nn.Linear(16, 4)
optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.05)
data = torch.randn(64, 8)
data[40:43] = 0
for part in (model[0], model[2]):
    nn.init.zeros_(part.bias)


def embed(batches):
    found = []
    model.eval()
    with torch.no_grad():
        for x in batches:
            z = model(x).half()
            found.append(z / (z.norm(dim=1, keepdim=True) + 1e-8))  # fault: underflow AMP501
    return torch.cat(found).float()


for epoch in range(3):
    for x in data.split(16):
        loss = F.cross_entropy(head(model(x)), x.argmax(1) % 4)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model[0].bias.data.zero_()
    model[2].bias.data.zero_()
    z = embed(data.split(16))
    with torch.no_grad():
        near = (z @ z.t()).mean()
        print(f"epoch {epoch}: mean likeness {near.item():.3f}")
