import torch
import torch.nn as nn


class ChannelNorm(nn.Module):
    """Normalises every channel of every patch, with a learned gain and shift."""

    def __init__(self, channels, eps=1e-8):
        super().__init__()
        self.eps = eps
        self.gain = nn.Parameter(torch.ones(1, channels, 1, 1))
        self.shift = nn.Parameter(torch.zeros(1, channels, 1, 1))

    def forward(self, x):
        mean = x.mean(dim=(2, 3), keepdim=True)
        var = x.var(dim=(2, 3), keepdim=True, unbiased=False)
        y = (x - mean) / torch.sqrt(var + self.eps)
        return y * self.gain + self.shift


class Block(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, 3, padding=1, bias=False)
        self.norm = ChannelNorm(cout)
        self.act = nn.LeakyReLU(0.1)

    def forward(self, x):
        return self.act(self.norm(self.conv(x)))


class Restorer(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.blocks = nn.Sequential(Block(1, width), Block(width, width), Block(width, width))
        self.last = nn.Conv2d(width, 1, 3, padding=1)

    def forward(self, x):
        return self.last(self.blocks(x))
