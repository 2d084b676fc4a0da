# flags: {"fast": (True, False)}
import argparse
import torch
from torch import autocast
from torch import nn
from torch.amp import GradScaler


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(1, 1)
        self.head = nn.Linear(1, 1)
    def forward(self, x):
        return self.head(self.body(x))


def propagate(grad_scaler, loss):
    grad_scaler.scale(loss).backward()


def divide(grad_scaler, opt):
    grad_scaler.unscale_(opt)


def train(loader, args):
    model = Net()
    criterion = nn.L1Loss()
    optimizer_a = torch.optim.SGD(model.body.parameters(), lr=1e-6, momentum=0.9)
    optimizer_b = torch.optim.SGD(model.head.parameters(), lr=1e-6, momentum=0.9)
    grad_scaler = GradScaler("cpu", enabled=args.fast)
    for x, y in loader:
        with autocast("cpu", dtype=torch.bfloat16):
            loss = criterion(model(x), y)
        propagate(grad_scaler, loss)
        for opt in [optimizer_a, optimizer_b]:
            divide(grad_scaler, opt)
            for opt in [optimizer_a, optimizer_b]:
                opt.zero_grad(set_to_none=True)
            grad_scaler.step(opt)
        grad_scaler.update()


def main(loader, fast):
    train(loader, argparse.Namespace(fast=fast))
