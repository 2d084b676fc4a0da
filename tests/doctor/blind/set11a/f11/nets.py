import torch
import torch.nn as nn


def block(cin, cout, down=True):
    conv = nn.Conv2d(cin, cout, 4, 2, 1) if down else nn.ConvTranspose2d(cin, cout, 4, 2, 1)
    return nn.Sequential(conv, nn.InstanceNorm2d(cout, affine=True), nn.LeakyReLU(0.2))


class TranslateG(nn.Module):
    """Edges -> photo."""

    def __init__(self, cin=1, cout=3, w=8):
        super().__init__()
        self.d1, self.d2 = block(cin, w), block(w, 2 * w)
        self.u1, self.u2 = block(2 * w, w, down=False), nn.ConvTranspose2d(2 * w, cout, 4, 2, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.u1(self.d2(a))
        return torch.tanh(self.u2(torch.cat([a, b], 1)))


class PatchD(nn.Module):
    def __init__(self, cin=4, w=8):
        super().__init__()
        self.net = nn.Sequential(block(cin, w), block(w, 2 * w), nn.Conv2d(2 * w, 1, 3, padding=1))

    def forward(self, cond, img):
        return self.net(torch.cat([cond, img], dim=1))


def set_requires_grad(net, flag):
    for p in net.parameters():
        p.requires_grad_(flag)
