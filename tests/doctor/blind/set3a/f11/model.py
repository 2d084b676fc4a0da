import torch
import torch.nn as nn
import torch.nn.functional as F


class WSConv2d(nn.Conv2d):
    """Weight standardised convolution."""

    def forward(self, x):
        w = self.weight
        mean = w.mean((1, 2, 3), keepdim=True)
        var = w.var((1, 2, 3), keepdim=True, unbiased=False)
        fan_in = w[0].numel()
        w = (w - mean) / torch.sqrt(var * fan_in + 1e-4)
        return F.conv2d(x, w, self.bias, self.stride, self.padding)


class NFBlock(nn.Module):
    def __init__(self, ch, alpha=0.2, beta=1.0):
        super().__init__()
        self.c1 = WSConv2d(ch, ch, 3, padding=1)
        self.c2 = WSConv2d(ch, ch, 3, padding=1)
        self.gain = nn.Parameter(torch.zeros(()))
        self.alpha, self.beta = alpha, beta

    def forward(self, x):
        h = F.gelu(x) * 1.7015 / self.beta
        h = self.c2(F.gelu(self.c1(h)) * 1.7015)
        return x + self.alpha * self.gain * h


class NFNetTiny(nn.Module):
    def __init__(self, classes=10, ch=16):
        super().__init__()
        self.stem = WSConv2d(3, ch, 3, stride=2, padding=1)
        self.blocks = nn.Sequential(NFBlock(ch), NFBlock(ch, beta=1.02))
        self.fc = nn.Linear(ch, classes)

    def forward(self, x):
        x = self.blocks(self.stem(x))
        return self.fc(F.gelu(x).mean((2, 3)))
