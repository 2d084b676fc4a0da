import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class GaborFilterbank(nn.Module):
    """Learnable band-pass filters initialised on a mel-like grid."""

    def __init__(self, n_filters=24, width=129, sample_rate=8000):
        super().__init__()
        lo, hi = 60.0, sample_rate / 2 - 200
        mel = torch.linspace(self._mel(lo), self._mel(hi), n_filters)
        centers = 700.0 * (10 ** (mel / 2595.0) - 1.0)
        t = torch.arange(width) - width // 2
        env = torch.exp(-0.5 * (t / (width / 6.0)) ** 2)
        k = torch.cos(2 * math.pi * centers[:, None] * t[None, :] / sample_rate) * env
        k = k / k.abs().sum(-1, keepdim=True)
        self.kernel = nn.Parameter(k.unsqueeze(1))
        self.stride = 40

    @staticmethod
    def _mel(f):
        return 2595.0 * math.log10(1.0 + f / 700.0)

    def forward(self, wav):
        return F.conv1d(wav.unsqueeze(1), self.kernel, stride=self.stride,
                        padding=self.kernel.size(-1) // 2)


class EnergyPooling(nn.Module):
    def __init__(self, n_filters, pool=5):
        super().__init__()
        self.pool = pool
        self.gain = nn.Parameter(torch.ones(n_filters, 1))
        self.norm = nn.LayerNorm(n_filters)

    def forward(self, bands):
        energy = bands.square()
        energy = F.avg_pool1d(energy, self.pool, self.pool)
        feats = torch.log1p(energy * self.gain.abs())
        return self.norm(feats.transpose(1, 2))
