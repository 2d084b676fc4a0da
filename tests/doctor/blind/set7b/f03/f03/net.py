import copy

import torch
from torch import nn


class Denoiser(nn.Module):
    def __init__(self, width=64, bands=8):
        super().__init__()
        self.register_buffer("freqs", 2.0 ** torch.arange(bands))
        self.inp = nn.Linear(2 + 2 * bands, width)
        self.mid = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.out = nn.Linear(width, 2)

    def forward(self, x, t):
        arg = t[:, None] * self.freqs
        h = self.inp(torch.cat([x, arg.sin(), arg.cos()], dim=1))
        for lin, norm in zip(self.mid, self.norms):
            h = h + torch.nn.functional.silu(lin(norm(h)))
        return self.out(h)


def clone_of(net):
    other = copy.deepcopy(net)
    for p in other.parameters():
        p.requires_grad_(False)
    return other


@torch.no_grad()
def ema_update(ema, net, decay):
    for a, b in zip(ema.parameters(), net.parameters()):
        a.lerp_(b, 1 - decay)
