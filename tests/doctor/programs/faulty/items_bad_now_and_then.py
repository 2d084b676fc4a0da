import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Curves(Dataset):
    def __init__(self, count):
        self.curves = torch.rand(count, 12)

    def __len__(self):
        return len(self.curves)

    def __getitem__(self, index):
        curve = self.curves[index]
        if random.random() < 0.2:
            start = random.randrange(12)
            part = curve[start : start + random.randrange(4)]
            curve = curve - part.mean()  # fault: data
        return curve, self.curves[index].sum()


random.seed(0)
torch.manual_seed(0)
loader = DataLoader(Curves(96), batch_size=16, shuffle=True)
model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for x, y in loader:
    loss = nn.functional.mse_loss(model(x).squeeze(1), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
