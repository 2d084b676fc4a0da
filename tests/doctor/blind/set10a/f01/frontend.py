"""Convolutional STFT front end for keyword spotting."""
import math

import torch
from torch import nn
import torch.nn.functional as F


def hz_to_mel(f):
    return 2595.0 * math.log10(1.0 + f / 700.0)


def mel_to_hz(m):
    return 700.0 * (10.0 ** (m / 2595.0) - 1.0)


def mel_matrix(n_bins, n_mels, sample_rate):
    top = hz_to_mel(sample_rate / 2)
    edges = [mel_to_hz(top * i / (n_mels + 1)) for i in range(n_mels + 2)]
    freqs = torch.linspace(0, sample_rate / 2, n_bins)
    fb = torch.zeros(n_mels, n_bins)
    for i in range(n_mels):
        lo, mid, hi = edges[i], edges[i + 1], edges[i + 2]
        up = (freqs - lo) / (mid - lo)
        down = (hi - freqs) / (hi - mid)
        fb[i] = torch.minimum(up, down).clamp(min=0)
    return fb


class ConvSTFT(nn.Module):
    """STFT written as two strided convolutions so that it exports cleanly."""

    def __init__(self, n_fft=128, hop=64):
        super().__init__()
        window = torch.hann_window(n_fft)
        n = torch.arange(n_fft).float()
        k = torch.arange(n_fft // 2 + 1).float()
        angle = 2 * math.pi * k[:, None] * n[None, :] / n_fft
        self.register_buffer("cos", (torch.cos(angle) * window)[:, None])
        self.register_buffer("sin", (-torch.sin(angle) * window)[:, None])
        self.hop = hop

    def forward(self, wav):
        real = F.conv1d(wav, self.cos, stride=self.hop)
        imag = F.conv1d(wav, self.sin, stride=self.hop)
        return real, imag


class LogMel(nn.Module):
    def __init__(self, sample_rate=4000, n_mels=24, n_fft=128, hop=64):
        super().__init__()
        self.stft = ConvSTFT(n_fft, hop)
        self.register_buffer("fb", mel_matrix(n_fft // 2 + 1, n_mels, sample_rate))

    def forward(self, wav):
        real, imag = self.stft(wav.unsqueeze(1))
        power = real.square() + imag.square()
        mel = self.fb @ power
        feats = torch.log(mel.float() + 1.0)
        return feats - feats.mean(dim=-1, keepdim=True)
