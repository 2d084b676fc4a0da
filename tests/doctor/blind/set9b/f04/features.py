import torch
from torch.utils.data import Dataset


class UtteranceSet(Dataset):
    def __init__(self, count, speakers, n_mels, seed=21):
        gen = torch.Generator().manual_seed(seed)
        profile = 10.0 * torch.randn(speakers, n_mels, generator=gen) - 55.0
        self.items = []
        for i in range(count):
            spk = i % speakers
            frames = int(torch.randint(240, 400, (1,), generator=gen))
            log_mel = profile[spk] + 6.0 * torch.randn(frames, n_mels, generator=gen)
            self.items.append((log_mel, spk))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def pad_batch(items):
    lengths = torch.tensor([len(f) for f, _ in items])
    feats = torch.zeros(len(items), int(lengths.max()), items[0][0].shape[1])
    for row, (f, _) in enumerate(items):
        feats[row, : len(f)] = f
    return feats.transpose(1, 2), lengths, torch.tensor([s for _, s in items])
