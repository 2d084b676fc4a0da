import math

import torch
from torch.utils.data import Dataset


class ToneClips(Dataset):
    """Short synthetic clips: one of four tones, sometimes padded with leading silence."""

    def __init__(self, n=320, sr=1000, seconds=0.512, seed=0, silent_lead=0.02):
        g = torch.Generator().manual_seed(seed)
        self.n_fft, self.hop = 64, 32
        t = torch.arange(int(sr * seconds)) / sr
        self.labels = torch.randint(0, 4, (n,), generator=g)
        freqs = torch.tensor([60.0, 120.0, 200.0, 320.0])[self.labels]
        phase = 2 * math.pi * torch.rand(n, 1, generator=g)
        wav = torch.sin(2 * math.pi * freqs[:, None] * t + phase)
        wav = wav + 0.3 * torch.randn(wav.shape, generator=g)
        lead = torch.rand(n, generator=g) < silent_lead
        wav[lead, : len(t) // 2] = 0
        self.wav = wav
        self.window = torch.hann_window(self.n_fft)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        spec = torch.stft(self.wav[i], self.n_fft, self.hop, window=self.window, return_complex=True)
        power = spec.abs().pow(2)
        feat = torch.log10(power)
        return feat.unsqueeze(0), self.labels[i]
