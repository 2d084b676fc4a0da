import torch
import torch.nn as nn
import torch.nn.functional as F


def double_conv(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True),
        nn.Conv2d(cout, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    def __init__(self, base=8):
        super().__init__()
        self.down1 = double_conv(1, base)
        self.down2 = double_conv(base, 2 * base)
        self.mid = double_conv(2 * base, 4 * base)
        self.up2 = double_conv(6 * base, 2 * base)
        self.up1 = double_conv(3 * base, base)
        self.out = nn.Conv2d(base, 1, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.mid(F.max_pool2d(b, 2))
        y = self.up2(torch.cat([F.interpolate(c, scale_factor=2), b], 1))
        y = self.up1(torch.cat([F.interpolate(y, scale_factor=2), a], 1))
        return self.out(y)
