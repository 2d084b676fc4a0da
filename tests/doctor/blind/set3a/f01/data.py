import math

import torch
from torch.utils.data import Dataset, Sampler


class SyntheticSpeakers(Dataset):
    """Log-mel features in dB for a handful of made-up speakers."""

    def __init__(self, n_utts=256, n_speakers=8, n_mels=24, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.n_mels = n_mels
        self.timbre = torch.randn(n_speakers, n_mels, generator=torch.Generator().manual_seed(7)) * 6
        self.labels = torch.randint(0, n_speakers, (n_utts,), generator=g)
        self.lengths = torch.randint(80, 620, (n_utts,), generator=g)
        self.seed = seed

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed * 100003 + i)
        t = int(self.lengths[i])
        env = 8 * torch.sin(torch.arange(t) / (6 + 4 * torch.rand(1, generator=g)) * math.pi)
        feats = 50 + self.timbre[self.labels[i]][:, None] + env + 5 * torch.randn(self.n_mels, t, generator=g)
        return feats, int(self.labels[i])


class SortedBatches(Sampler):
    """Short utterances first in the first epoch, shuffled batches after that."""

    def __init__(self, lengths, batch_size):
        order = torch.argsort(lengths).tolist()
        self.batches = [order[i:i + batch_size] for i in range(0, len(order), batch_size)]
        self.epoch = 0

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        idx = range(len(self.batches))
        if self.epoch > 0:
            g = torch.Generator().manual_seed(self.epoch)
            idx = torch.randperm(len(self.batches), generator=g).tolist()
        self.epoch += 1
        for i in idx:
            yield self.batches[i]


def collate(items):
    t = max(f.shape[1] for f, _ in items)
    x = torch.zeros(len(items), items[0][0].shape[0], t)
    m = torch.zeros(len(items), t)
    for k, (f, _) in enumerate(items):
        x[k, :, : f.shape[1]] = f
        m[k, : f.shape[1]] = 1
    return x, m, torch.tensor([y for _, y in items])
