import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def time_features(t, dim):
    f = torch.exp(-math.log(1000) * torch.arange(dim // 2) / (dim // 2))
    a = t.float()[:, None] * f[None]
    return torch.cat([a.sin(), a.cos()], 1)


class Res(nn.Module):
    def __init__(self, i, o, td):
        super().__init__()
        self.n1, self.n2 = nn.GroupNorm(4, i), nn.GroupNorm(4, o)
        self.c1, self.c2 = nn.Conv2d(i, o, 3, padding=1), nn.Conv2d(o, o, 3, padding=1)
        self.t = nn.Linear(td, o)
        self.skip = nn.Conv2d(i, o, 1) if i != o else nn.Identity()

    def forward(self, x, temb):
        h = self.c1(F.silu(self.n1(x))) + self.t(temb)[:, :, None, None]
        return self.skip(x) + self.c2(F.silu(self.n2(h)))


class UNet(nn.Module):
    def __init__(self, ch=8, td=32):
        super().__init__()
        self.td = td
        self.time = nn.Sequential(nn.Linear(td, td), nn.SiLU())
        self.inp = nn.Conv2d(1, ch, 3, padding=1)
        self.d1, self.d2 = Res(ch, ch, td), Res(ch, ch * 2, td)
        self.u1 = Res(ch * 3, ch, td)
        self.out = nn.Conv2d(ch, 1, 3, padding=1)
        nn.init.normal_(self.out.weight, std=1e-5)
        nn.init.zeros_(self.out.bias)

    def forward(self, x, t):
        temb = self.time(time_features(t, self.td))
        a = self.d1(self.inp(x), temb)
        b = self.d2(F.avg_pool2d(a, 2), temb)
        b = F.interpolate(b, scale_factor=2)
        return self.out(F.silu(self.u1(torch.cat([a, b], 1), temb)))
