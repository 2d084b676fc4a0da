# flags: {"fast": (True, False)}
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(1, 1)
        self.head = nn.Linear(1, 1)
    def forward(self, x):
        return self.head(self.body(x))


class Trainer:
    def __init__(self, fast):
        self.fast = fast
        self.model = Net()
        self.criterion = nn.L1Loss()
        self.opt_a = torch.optim.SGD(self.model.body.parameters(), lr=1e-6)
        self.opt_b = torch.optim.SGD(self.model.head.parameters(), lr=1e-6)
        self.scaler = torch.amp.GradScaler("cpu", enabled=self.fast)
    def fit(self, loader):
        for x, y in loader:
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.fast):
                loss = self.criterion(self.model(x), y)
            self.model.zero_grad()
            self.scaler.scale(loss).backward(retain_graph=True)
            self.scaler.scale(loss).backward(retain_graph=True)
            self.train_step()
    def train_step(self, ends=True):
        self.opt_a.step()
        self.scaler.step(self.opt_b)
        if ends:
            self.scaler.update()


def train(loader, fast):
    Trainer(fast).fit(loader)
