import torch
import torch.nn as nn
import torch.nn.functional as F


def cbr(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))


class MiniUNet(nn.Module):
    def __init__(self, ch=8):
        super().__init__()
        self.e1 = cbr(1, ch)
        self.e2 = cbr(ch, 2 * ch)
        self.mid = cbr(2 * ch, 2 * ch)
        self.d1 = cbr(3 * ch, ch)
        self.out = nn.Conv2d(ch, 1, 1)

    def forward(self, x):
        a = self.e1(x)
        b = self.e2(F.max_pool2d(a, 2))
        m = self.mid(b)
        u = F.interpolate(m, scale_factor=2, mode="nearest")
        return self.out(self.d1(torch.cat([u, a], 1)))
