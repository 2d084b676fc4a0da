import math

import torch
from torch.utils.data import Dataset, Sampler


class SyntheticCommands(Dataset):
    """16-bit PCM clips; a keyword is a sequence of two tones."""

    TONES = (300.0, 550.0, 900.0, 1400.0)

    def __init__(self, n=640, seconds=0.5, sr=8000, seed=7):
        g = torch.Generator().manual_seed(seed)
        t = torch.arange(int(seconds * sr)) / sr
        half = len(t) // 2
        clips, labels, levels = [], [], []
        for _ in range(n):
            a, b = torch.randint(0, 4, (2,), generator=g).tolist()
            db = -62.0 + 58.0 * torch.rand((), generator=g).item()
            amp = 32767.0 * 10 ** (db / 20.0)
            x = torch.empty_like(t)
            x[:half] = torch.sin(2 * math.pi * self.TONES[a] * t[:half])
            x[half:] = torch.sin(2 * math.pi * self.TONES[b] * t[half:])
            x = amp * x + 3.0 * torch.randn(len(t), generator=g)
            clips.append(x.round().clamp(-32768, 32767).to(torch.int16))
            labels.append(a * 4 + b)
            levels.append(db)
        self.clips, self.labels = clips, labels
        self.levels = torch.tensor(levels)

    def __len__(self):
        return len(self.clips)

    def __getitem__(self, i):
        return self.clips[i].float(), self.labels[i]


class CurriculumSampler(Sampler):
    """Orders clips by level and shuffles inside windows."""

    def __init__(self, levels, window=64, seed=0):
        self.levels, self.window, self.seed = levels, window, seed
        self.epoch = 0

    def set_epoch(self, e):
        self.epoch = e

    def __len__(self):
        return len(self.levels)

    def __iter__(self):
        g = torch.Generator().manual_seed(self.seed + self.epoch)
        order = torch.argsort(self.levels)
        for start in range(0, len(order), self.window):
            chunk = order[start:start + self.window]
            yield from chunk[torch.randperm(len(chunk), generator=g)].tolist()
