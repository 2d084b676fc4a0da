import torch
from torch.utils.data import Dataset


def synth_recording(length, channels, seed):
    """A machine's vibration: it runs, idles and runs again."""
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(length).float()
    speed = 0.2 + 0.15 * torch.sin(2 * torch.pi * t / 700)
    phase = torch.cumsum(speed, 0)
    gain = torch.linspace(0.5, 1.5, channels)[:, None]
    wave = gain * torch.sin(phase) + 0.1 * torch.randn(channels, length, generator=g)
    stop = int(length * 0.83)
    wave[:, stop:stop + 150] = 0.0
    return wave, speed


class SlidingWindows(Dataset):
    def __init__(self, wave, speed, width=64, stride=16):
        self.items = []
        for start in range(0, wave.size(1) - width, stride):
            cut = wave[:, start:start + width]
            mean = cut.mean(1, keepdim=True)
            std = cut.std(1, keepdim=True)
            self.items.append(((cut - mean) / std, speed[start + width // 2]))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]
