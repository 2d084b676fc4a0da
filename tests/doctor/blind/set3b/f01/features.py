"""Log-mel front end implemented with strided convolutions."""
import math

import torch
import torch.nn.functional as F
from torch import nn


def mel_matrix(n_mels, n_bins, rate):
    def to_mel(hz):
        return 2595.0 * math.log10(1.0 + hz / 700.0)

    top = to_mel(rate / 2)
    edges = [700.0 * (10 ** (top * i / (n_mels + 1) / 2595.0) - 1.0) for i in range(n_mels + 2)]
    freqs = torch.linspace(0, rate / 2, n_bins)
    bank = torch.zeros(n_mels, n_bins)
    for m in range(n_mels):
        lo, mid, hi = edges[m:m + 3]
        up = (freqs - lo) / (mid - lo)
        down = (hi - freqs) / (hi - mid)
        bank[m] = torch.minimum(up, down).clamp(min=0)
    bank[bank.sum(1) == 0, 0] = 1.0
    return bank


class LogMel(nn.Module):
    def __init__(self, rate=8000, n_fft=128, hop=64, n_mels=20):
        super().__init__()
        self.hop = hop
        n = torch.arange(n_fft, dtype=torch.float32)
        k = torch.arange(n_fft // 2 + 1, dtype=torch.float32)[:, None]
        window = torch.hann_window(n_fft)
        angle = 2 * math.pi * k * n / n_fft
        kernel = torch.cat([torch.cos(angle), -torch.sin(angle)]) * window / n_fft
        self.register_buffer("kernel", kernel[:, None, :])
        self.register_buffer("bank", mel_matrix(n_mels, n_fft // 2 + 1, rate))

    def forward(self, wave):
        spec = F.conv1d(wave[:, None, :], self.kernel, stride=self.hop)
        re, im = spec.chunk(2, dim=1)
        power = re * re + im * im
        mel = torch.einsum("mf,bft->bmt", self.bank, power)
        logmel = torch.log(mel + 1.0)
        mu = logmel.mean(dim=(1, 2), keepdim=True)
        sd = logmel.std(dim=(1, 2), keepdim=True)
        return (logmel - mu) / (sd + 1e-2)
