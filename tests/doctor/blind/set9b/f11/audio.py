import numpy as np
import torch
from torch.utils.data import Dataset

RATE = 4000


def frame(signal, size=128, hop=64):
    count = 1 + (len(signal) - size) // hop
    index = np.arange(size)[None, :] + hop * np.arange(count)[:, None]
    return signal[index] * np.hanning(size)


def log_spectrogram(signal):
    power = np.abs(np.fft.rfft(frame(signal), axis=1)) ** 2
    with np.errstate(divide="ignore"):
        db = 10.0 * np.log10(power)
    return np.clip(db / 40.0, None, 2.0).astype(np.float32)


def fit_length(signal, length):
    if len(signal) >= length:
        return signal[:length]
    return np.pad(signal, (0, length - len(signal)))


class KeywordClips(Dataset):
    classes = 5
    n_bins = 65

    def __init__(self, count, seed, seconds=0.5):
        rng = np.random.default_rng(seed)
        self.length = int(RATE * seconds)
        self.clips = []
        for i in range(count):
            label = i % self.classes
            n = int(self.length * rng.uniform(0.9, 1.3))
            t = np.arange(n) / RATE
            tone = np.sin(2 * np.pi * (250 + 220 * label) * t + rng.uniform(0, 6))
            self.clips.append((tone + 0.6 * rng.standard_normal(n), label))

    def __len__(self):
        return len(self.clips)

    def __getitem__(self, i):
        signal, label = self.clips[i]
        return torch.from_numpy(log_spectrogram(fit_length(signal, self.length)).T.copy()), label
