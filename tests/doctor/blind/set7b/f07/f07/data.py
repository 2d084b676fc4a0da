import math

import torch
from torch.utils.data import Dataset

SR = 2000
FRAME, HOP = 100, 50


def make_corpus(n, classes, seed):
    """Synthetic keyword clips: a class-specific chirp somewhere in background noise."""
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(SR // 2) / SR
    clips = []
    for i in range(n):
        label = i % classes
        f0 = 120 + 90 * label
        start = 100 + int(torch.randint(0, 400, (1,), generator=g))
        wav = torch.zeros_like(t)
        if i != 91:
            wav = 0.02 * torch.randn(len(t), generator=g)
            wav[start:start + 400] += torch.sin(2 * math.pi * f0 * t[:400] * (1 + t[:400]))
        clips.append((wav, label))
    return clips


def band_energies(wav, n_bands=20):
    frames = wav.unfold(0, FRAME, HOP) * torch.hann_window(FRAME)
    power = torch.fft.rfft(frames).abs() ** 2
    pooled = torch.nn.functional.adaptive_avg_pool1d(power, n_bands)
    return torch.log(pooled + 1e-6)


class ClipSet(Dataset):
    def __init__(self, corpus):
        self.corpus = corpus

    def __len__(self):
        return len(self.corpus)

    def __getitem__(self, i):
        wav, label = self.corpus[i]
        wav = wav / wav.abs().max()
        return band_energies(wav), label
