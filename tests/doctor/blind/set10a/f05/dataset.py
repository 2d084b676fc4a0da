"""Machine sound clips: normal operation only, for an autoencoder detector."""
import numpy as np
import torch
from torch.utils.data import Dataset


def simulate_recording(rng, seconds, sr):
    t = np.arange(int(seconds * sr)) / sr
    hum = sum(np.sin(2 * np.pi * 50 * k * t + rng.uniform(0, 6.28)) / k for k in range(1, 6))
    return 0.3 * hum + 0.05 * rng.standard_normal(len(t))


class MachineSounds(Dataset):
    def __init__(self, recordings, sr=2000, seconds=6.0, frame=256, seed=0):
        rng = np.random.default_rng(seed)
        self.frames = []
        for r in range(recordings):
            wav = simulate_recording(rng, seconds, sr)
            # the recorder pauses between two shifts
            if r % 5 == 3:
                start = int(rng.integers(0, len(wav) - 3 * frame))
                wav[start:start + 3 * frame] = 0.0
            usable = len(wav) // frame * frame
            self.frames.append(wav[:usable].reshape(-1, frame))
        self.frames = np.concatenate(self.frames).astype(np.float32)
        self.window = np.hanning(frame).astype(np.float32)

    def __len__(self):
        return len(self.frames)

    def __getitem__(self, i):
        x = self.frames[i]
        x = (x - x.mean()) / x.std()
        spec = np.abs(np.fft.rfft(x * self.window))[:128]
        return torch.from_numpy(np.log1p(spec).astype(np.float32))
