"""Speech enhancement: a GRU mask estimator with a power-compressed spectral loss."""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

N_FFT, HOP, LENGTH = 128, 64, 2048


class Clips(Dataset):
    """Harmonic tones with noise; clips have different lengths."""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        t = torch.arange(LENGTH) / 8000.0
        self.items = []
        for _ in range(n):
            f0 = 150 + 300 * torch.rand(1, generator=g)
            clean = sum(torch.sin(6.2832 * f0 * k * t) / k for k in (1, 2, 3))
            noisy = clean + 0.4 * torch.randn(LENGTH, generator=g)
            end = int(torch.randint(LENGTH // 2, LENGTH, (1,), generator=g))
            clean[end:], noisy[end:] = 0.0, 0.0
            self.items.append((noisy, clean))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def stft_mag(wave):
    spec = torch.stft(wave, N_FFT, HOP, window=torch.hann_window(N_FFT), return_complex=True)
    return spec.abs().transpose(1, 2)


class MaskNet(nn.Module):
    def __init__(self, bins=N_FFT // 2 + 1, hidden=32):
        super().__init__()
        self.rnn = nn.GRU(bins, hidden, batch_first=True)
        self.out = nn.Linear(hidden, bins)

    def forward(self, mag):
        h, _ = self.rnn(torch.log1p(mag))
        return torch.sigmoid(self.out(h))


class CompressedLoss(nn.Module):
    def __init__(self, c=0.3):
        super().__init__()
        self.c = c

    def forward(self, est, ref):
        return ((est ** self.c - ref ** self.c) ** 2).mean()


class Trainer:
    def __init__(self, lr=2e-3):
        self.net = MaskNet()
        self.loss = CompressedLoss()
        self.opt = torch.optim.Adam(self.net.parameters(), lr=lr)

    def epoch(self, loader, train=True):
        self.net.train(train)
        total = 0.0
        with torch.set_grad_enabled(train):
            for noisy, clean in loader:
                mag = stft_mag(noisy)
                loss = self.loss(self.net(mag) * mag, stft_mag(clean))
                if train:
                    self.opt.zero_grad()
                    loss.backward()
                    nn.utils.clip_grad_norm_(self.net.parameters(), 5.0)
                    self.opt.step()
                total += loss.item()
        return total / len(loader)


if __name__ == "__main__":
    torch.manual_seed(0)
    train = DataLoader(Clips(48, 1), batch_size=8, shuffle=True, num_workers=0)
    valid = DataLoader(Clips(16, 2), batch_size=8)
    tr = Trainer()
    for ep in range(6):
        a = tr.epoch(train)
        b = tr.epoch(valid, train=False)
        print(f"epoch {ep} train {a:.4f} valid {b:.4f}")
