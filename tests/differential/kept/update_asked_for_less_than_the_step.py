# flags: {"k": (1, 2, 3), "fast": (True, False)}
import torch
from torch import nn


class Trainer:
    def __init__(self, fast, k):
        self.fast = fast
        self.k = k
        self.model = nn.Linear(1, 1)
        self.criterion = nn.L1Loss()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-6, momentum=0.9)
        self.scaler = torch.amp.GradScaler("cpu", enabled=self.fast)
    def fit(self, loader):
        for i, (x, y) in enumerate(loader):
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.fast):
                out = self.model(x)
                loss = self.criterion(out, y)
            loss.backward()
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.fast):
                out = self.model(x * 1.5)
                loss_aux = self.criterion(out, y)
            self.scaler.scale(loss_aux).backward()
            if (i + 1) % self.k == 0:
                if self.fast:
                    self.scaler.step(self.optimizer)
            if (i + 1) % self.k == 0:
                self.train_step()
            if (i + 1) % self.k == 0:
                pass
    def train_step(self):
        self.finish()
    def finish(self):
        self.apply()
    def apply(self):
        self.scaler.update()


def train(loader, fast, k):
    Trainer(fast, k).fit(loader)
