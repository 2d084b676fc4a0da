import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def time_embedding(t, dim):
    half = dim // 2
    freqs = torch.exp(-math.log(10000.0) * torch.arange(half, device=t.device) / half)
    a = t.float().unsqueeze(1) * freqs
    return torch.cat([a.sin(), a.cos()], 1)


class ResBlock(nn.Module):
    def __init__(self, i, o, tdim):
        super().__init__()
        self.n1 = nn.GroupNorm(4, i)
        self.c1 = nn.Conv1d(i, o, 3, padding=1)
        self.t = nn.Linear(tdim, o)
        self.n2 = nn.GroupNorm(4, o)
        self.c2 = nn.Conv1d(o, o, 3, padding=1)
        self.skip = nn.Conv1d(i, o, 1) if i != o else nn.Identity()

    def forward(self, x, temb):
        h = self.c1(F.silu(self.n1(x))) + self.t(temb).unsqueeze(-1)
        return self.skip(x) + self.c2(F.silu(self.n2(h)))


class UNet1d(nn.Module):
    def __init__(self, ch=16, tdim=32):
        super().__init__()
        self.tdim = tdim
        self.temb = nn.Sequential(nn.Linear(tdim, tdim), nn.SiLU(), nn.Linear(tdim, tdim))
        self.inp = nn.Conv1d(1, ch, 3, padding=1)
        self.down = ResBlock(ch, 2 * ch, tdim)
        self.mid = ResBlock(2 * ch, 2 * ch, tdim)
        self.up = ResBlock(3 * ch, ch, tdim)
        self.out = nn.Conv1d(ch, 1, 3, padding=1)

    def forward(self, x, t):
        with torch.autocast(x.device.type, enabled=False):
            temb = self.temb(time_embedding(t, self.tdim))
            h0 = self.inp(x.float())
            h1 = self.down(F.avg_pool1d(h0, 2), temb)
            h1 = self.mid(h1, temb)
            h = F.interpolate(h1, scale_factor=2.0, mode="nearest")
            return self.out(F.silu(self.up(torch.cat([h, h0], 1), temb)))
