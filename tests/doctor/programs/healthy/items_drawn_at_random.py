"""Items and batches that draw random numbers, and hold NaN that a mask leaves out."""

import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Curves(Dataset):
    def __init__(self, count):
        self.curves = torch.rand(count, 12)
        self.random = torch.Generator().manual_seed(3)

    def __len__(self):
        return len(self.curves)

    def __getitem__(self, index):
        curve = self.curves[index] + torch.rand(12, generator=self.random)
        target = curve.sum() if random.random() < 0.8 else torch.tensor(float("nan"))
        return curve, target


def collate(items):
    x, y = (torch.stack(each) for each in zip(*items))
    return x[torch.randperm(len(x))] * 0 + x, y


random.seed(0)
torch.manual_seed(0)
loader = DataLoader(Curves(96), batch_size=16, shuffle=True, collate_fn=collate)
model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for x, y in loader:
    known = ~y.isnan()
    loss = nn.functional.mse_loss(model(x).squeeze(1)[known], y[known])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
