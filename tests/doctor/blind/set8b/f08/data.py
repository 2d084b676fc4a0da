import torch
from torch.utils.data import Dataset

BANDS = 20


def synth(word, length, g):
    t = torch.arange(length).float()
    base = 3 + 2.5 * word
    centre = base + 2 * torch.sin(t / (4 + word))
    bands = torch.arange(BANDS).float()
    spec = torch.exp(-0.5 * ((bands[:, None] - centre[None]) / 1.3) ** 2)
    return (spec + 0.05 * torch.rand(BANDS, length, generator=g)).clamp(min=0)


class Clips(Dataset):
    """Log-band clips cut to a fixed number of frames."""

    def __init__(self, n, words, frames=40, seed=0, quiet=0.02):
        g = torch.Generator().manual_seed(seed)
        self.frames = frames
        self.clips, self.labels = [], []
        for _ in range(n):
            w = int(torch.randint(words, (1,), generator=g))
            spec = synth(w, frames + 12, g)
            gain = 0.0 if torch.rand((), generator=g) < quiet else float(torch.rand((), generator=g)) + 0.5
            self.clips.append(spec * gain)
            self.labels.append(w)

    def __len__(self):
        return len(self.clips)

    def __getitem__(self, i):
        start = int(torch.randint(12, (1,)))
        x = torch.log(self.clips[i][:, start:start + self.frames] + 1e-3)
        x = x - x.mean(dim=1, keepdim=True)
        x = x / x.std(dim=1, keepdim=True)
        return x, self.labels[i]
