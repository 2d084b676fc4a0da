import argparse

import torch
from torch import nn


class Losses:
    def __init__(self, weight):
        self.weight = weight

    def __call__(self, outputs, targets):
        parts = {}
        parts["main"] = nn.functional.mse_loss(outputs["mean"].float(), targets)
        variance = outputs["log_var"].exp()  # fault: overflow AMP510
        parts["kl"] = self.weight * (variance.mean().float() - outputs["log_var"].float().mean())
        return parts


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(6, 12), nn.GELU())
        self.mean, self.log_var = nn.Linear(12, 2), nn.Linear(12, 2)

    def forward(self, x):
        h = self.trunk(x)
        return {"mean": self.mean(h), "log_var": self.log_var(h)}


class Trainer:
    def __init__(self, arguments):
        self.model = Net()
        self.criterion = Losses(arguments.weight)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.scaler = torch.amp.GradScaler("cpu", enabled=arguments.amp)
        self.arguments = arguments

    def compute_loss(self, batch):
        x, y = batch
        with torch.autocast("cpu", dtype=torch.float16, enabled=self.arguments.amp):
            outputs = self.model(x)
            parts = self.criterion(outputs, y)
        return sum(parts.values())

    def fit(self, data):
        self.optimizer.zero_grad(set_to_none=True)
        for i, batch in enumerate(data):
            self.loss = self.compute_loss(batch) / self.arguments.accumulate
            self.scaler.scale(self.loss).backward()
            if (i + 1) % self.arguments.accumulate == 0:
                self.scaler.unscale_(self.optimizer)
                nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.scaler.step(self.optimizer)
                self.scaler.update()
                self.optimizer.zero_grad(set_to_none=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--amp", action="store_true", default=True)
    parser.add_argument("--weight", type=float, default=0.1)
    parser.add_argument("--accumulate", type=int, default=2)
    torch.manual_seed(0)
    data = [(torch.randn(4, 6) * (1 if i != 17 else 60), torch.randn(4, 2)) for i in range(30)]
    Trainer(parser.parse_args()).fit(data)
