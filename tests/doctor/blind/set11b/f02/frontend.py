import math

import torch
import torch.nn.functional as F
from torch import nn


def mel_matrix(sample_rate, n_fft, n_mels):
    def to_mel(f):
        return 2595.0 * math.log10(1.0 + f / 700.0)

    edges = torch.linspace(to_mel(60.0), to_mel(sample_rate / 2), n_mels + 2)
    hz = 700.0 * (10.0 ** (edges / 2595.0) - 1.0)
    freqs = torch.linspace(0, sample_rate / 2, n_fft // 2 + 1)
    up = (freqs[None] - hz[:-2, None]) / (hz[1:-1] - hz[:-2])[:, None]
    down = (hz[2:, None] - freqs[None]) / (hz[2:] - hz[1:-1])[:, None]
    return torch.minimum(up, down).clamp(min=0)


class LogMel(nn.Module):
    """STFT as a strided convolution (exports to ONNX), then mel energies in log."""

    def __init__(self, sample_rate, n_fft, hop, n_mels):
        super().__init__()
        self.hop = hop
        n = torch.arange(n_fft)
        k = torch.arange(n_fft // 2 + 1)[:, None]
        window = torch.hann_window(n_fft)
        phase = 2 * math.pi * k * n / n_fft
        self.register_buffer("kernel", torch.cat([torch.cos(phase), -torch.sin(phase)])[:, None] * window)
        self.register_buffer("mel", mel_matrix(sample_rate, n_fft, n_mels))

    def forward(self, wav):
        wav = wav - wav.mean(-1, keepdim=True)
        spec = F.conv1d(wav[:, None], self.kernel, stride=self.hop)
        re, im = spec.chunk(2, dim=1)
        power = re.pow(2) + im.pow(2)
        energy = torch.matmul(self.mel, power)
        feats = torch.log(energy + 1.0)
        return (feats - feats.mean(-1, keepdim=True)) * 0.5 + feats.mean(-1, keepdim=True) * 0.1
