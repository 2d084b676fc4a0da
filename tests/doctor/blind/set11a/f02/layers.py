import torch
import torch.nn as nn


class PixelNorm(nn.Module):
    def __init__(self, eps=1e-8):
        super().__init__()
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(torch.mean(x * x, dim=1, keepdim=True) + self.eps)


class ConvBlock(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, 3, stride=stride, padding=1, bias=False)
        self.norm = PixelNorm()
        self.act = nn.LeakyReLU(0.2)
        nn.init.kaiming_normal_(self.conv.weight, a=0.2)

    def forward(self, x):
        return self.act(self.norm(self.conv(x)))
