import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


class MixerBlock(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.tok = nn.Sequential(nn.Linear(n, 2 * n), nn.GELU(), nn.Linear(2 * n, n))
        self.chn = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x):
        x = x + self.tok(self.n1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.chn(self.n2(x))


class Mixer(nn.Module):
    def __init__(self, d, depth, patch=4, size=16, classes=6, use_checkpoint=False):
        super().__init__()
        self.patch, self.use_checkpoint = patch, use_checkpoint
        self.embed = nn.Linear(patch * patch, d)
        self.blocks = nn.ModuleList(MixerBlock((size // patch) ** 2, d) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, classes)

    def forward(self, x):
        p = F.unfold(x, self.patch, stride=self.patch).transpose(1, 2)
        h = self.embed(p)
        for b in self.blocks:
            h = checkpoint(b, h, use_reentrant=False) if self.use_checkpoint and self.training else b(h)
        return self.head(self.norm(h).mean(1))
