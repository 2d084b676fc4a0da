# flags: {}
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


def fit(loader, model, criterion, encoder_optimizer, decoder_optimizer, scaler):
    optimizers = [encoder_optimizer, decoder_optimizer]
    for x, y in loader:
        for opt in optimizers:
            opt.zero_grad()
        with autocast("cpu", dtype=torch.bfloat16):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward(retain_graph=True)
        loss.backward()
        for opt in optimizers:
            scaler.unscale_(opt)
            opt.step()
            scaler.update()
        scaler.update()


def train(loader):
    model = Net()
    criterion = nn.L1Loss()
    encoder_optimizer = torch.optim.SGD(model.body.parameters(), lr=1e-6)
    decoder_optimizer = torch.optim.SGD(model.head.parameters(), lr=1e-6, momentum=0.9)
    scaler = GradScaler("cpu")
    fit(loader, model, criterion, encoder_optimizer, decoder_optimizer, scaler)
