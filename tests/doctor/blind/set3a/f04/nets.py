import torch
import torch.nn as nn
import torch.nn.functional as F


def conv_block(i, o, s=1):
    return nn.Sequential(nn.Conv2d(i, o, 3, s, 1), nn.GroupNorm(4, o), nn.ELU())


class DepthNet(nn.Module):
    def __init__(self, ch=16):
        super().__init__()
        self.e1 = conv_block(3, ch)
        self.e2 = conv_block(ch, ch * 2, 2)
        self.e3 = conv_block(ch * 2, ch * 2)
        self.d1 = conv_block(ch * 2 + ch, ch)
        self.disp = nn.Conv2d(ch, 1, 3, padding=1)

    def forward(self, x):
        a = self.e1(x)
        b = self.e3(self.e2(a))
        b = F.interpolate(b, scale_factor=2, mode="nearest")
        return torch.sigmoid(self.disp(self.d1(torch.cat([a, b], 1))))


def disp_to_depth(disp, min_disp=1e-3, scale=1.0):
    """Predicted sigmoid disparity to metric depth."""
    shifted = disp * scale + min_disp
    depth = 1.0 / shifted
    return depth
