import torch
import torch.nn as nn
import torch.nn.functional as F


class ConvBlock(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, 3, stride, 1)
        self.act = nn.ELU(inplace=True)

    def forward(self, x):
        return self.act(self.conv(x))


class DepthNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.e1 = ConvBlock(3, width, 2)
        self.e2 = ConvBlock(width, 2 * width, 2)
        self.e3 = ConvBlock(2 * width, 2 * width)
        self.d2 = ConvBlock(2 * width, width)
        self.d1 = ConvBlock(2 * width, width)
        self.disp = nn.Conv2d(width, 1, 3, 1, 1)

    def forward(self, x):
        a = self.e1(x)
        b = self.e3(self.e2(a))
        y = F.interpolate(self.d2(b), scale_factor=2, mode="nearest")
        y = self.d1(torch.cat([y, a], 1))
        y = F.interpolate(y, scale_factor=2, mode="nearest")
        return torch.sigmoid(self.disp(y))
