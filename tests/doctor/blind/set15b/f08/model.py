import torch
from torch import nn


class Trunk(nn.Module):
    def __init__(self, n_in, hid=64):
        super().__init__()
        self.bn_in = nn.BatchNorm1d(n_in)
        self.fc1 = nn.Linear(n_in, hid)
        self.fc2 = nn.Linear(hid, hid)

    def forward(self, x):
        h = torch.relu(self.fc1(self.bn_in(x)))
        return torch.relu(self.fc2(h))


class Forecaster(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.trunk = Trunk(n_in)
        self.head = nn.Linear(64, n_out)

    def forward(self, x):
        return self.head(self.trunk(x))
