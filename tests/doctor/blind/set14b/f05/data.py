import math

import torch
from torch.utils.data import Dataset

RATE, SAMPLES = 4000, 2000


def tone(freq, generator):
    t = torch.arange(SAMPLES) / RATE
    phase = 2 * math.pi * torch.rand((), generator=generator)
    drift = 1 + 0.02 * torch.randn((), generator=generator)
    envelope = torch.sin(math.pi * t / t[-1]).clamp(min=0)
    return envelope * torch.sin(2 * math.pi * freq * drift * t + phase)


def noise_bank(generator):
    """A few background recordings that clips are mixed with."""
    white = torch.randn(SAMPLES, generator=generator)
    brown = white.cumsum(0)
    brown = brown - brown.mean()
    t = torch.arange(SAMPLES) / RATE
    hum = torch.sin(2 * math.pi * 50 * t) + 0.3 * torch.sin(2 * math.pi * 150 * t)
    bursts = torch.randn(SAMPLES, generator=generator) * (torch.sin(2 * math.pi * 3 * t) > 0.8)
    bursts[: SAMPLES // 3] = 0.0
    room = torch.zeros(SAMPLES)
    room[-40:] = 0.01 * torch.randn(40, generator=generator)
    return [white, brown / brown.std(), hum, bursts, room]


class Keywords(Dataset):
    def __init__(self, size, classes, train, seed):
        g = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(classes, (size,), generator=g)
        self.clips = [tone(200.0 + 110.0 * int(c), g) for c in self.labels]
        self.noises = noise_bank(g)
        self.train = train
        self.g = g

    def __len__(self):
        return len(self.clips)

    def mix(self, clip):
        bed = self.noises[int(torch.randint(len(self.noises), (), generator=self.g))]
        start = int(torch.randint(SAMPLES // 2, (), generator=self.g))
        bed = bed[start:start + SAMPLES // 2].repeat(2)
        snr = 5 + 15 * torch.rand((), generator=self.g)
        gain = (clip.square().mean() / bed.square().mean() * 10 ** (-snr / 10)).sqrt()
        return clip + gain * bed

    def __getitem__(self, i):
        clip = self.clips[i]
        if self.train and torch.rand((), generator=self.g) < 0.5:
            clip = self.mix(clip)
        return clip, self.labels[i]
