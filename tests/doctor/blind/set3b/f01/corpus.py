"""Synthetic keyword recordings with PCM-valued samples."""
import math

import torch
from torch.utils.data import Dataset


class Recordings(Dataset):
    """Sessions are stored one after the other, each with its own microphone gain."""

    def __init__(self, n=480, classes=5, length=1024, rate=8000, seed=0):
        g = torch.Generator().manual_seed(seed)
        t = torch.arange(length) / rate
        gains = torch.tensor([220.0, 340.0, 180.0, 410.0, 260.0, 390.0, 2900.0, 310.0])
        per = n // len(gains)
        self.items = []
        for i in range(n):
            y = int(torch.randint(0, classes, (1,), generator=g))
            f0 = 300.0 + 350.0 * y + 30.0 * float(torch.randn(1, generator=g))
            gain = gains[min(i // per, len(gains) - 1)]
            tone = torch.sin(2 * math.pi * f0 * t) + 0.4 * torch.sin(4 * math.pi * f0 * t)
            env = torch.hann_window(length)
            noise = 0.05 * torch.randn(length, generator=g)
            self.items.append((((tone * env + noise) * gain).round(), y))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]
