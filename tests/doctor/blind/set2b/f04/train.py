import math
import os
import sys
import tempfile
import wave

import torch
from torch.utils.data import DataLoader, Dataset

from separation import Separator, pit_l1

SR = 4000


def write_meeting(path, seconds, seed):
    """Two made-up talkers with pauses, 16-bit stereo (one talker a channel)."""
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(seconds * SR) / SR
    tracks, prev = [], None
    for f0 in (140.0, 230.0):
        vib = 1 + 0.02 * torch.sin(2 * math.pi * 5 * t)
        x = sum(torch.sin(2 * math.pi * f0 * k * t * vib) / k for k in range(1, 6))
        gate = (torch.rand(seconds * 2, generator=g) > 0.3).float().repeat_interleave(SR // 2)
        if prev is not None:
            gate = torch.maximum(gate, 1 - prev)
        prev = gate
        tracks.append(0.3 * x * gate)
    s = torch.stack(tracks, 1)
    s[int(0.52 * len(s)):int(0.58 * len(s))] = 0.0
    pcm = (s.clamp(-1, 1) * 32767).to(torch.int16)
    with wave.open(path, "wb") as w:
        w.setnchannels(2)
        w.setsampwidth(2)
        w.setframerate(SR)
        w.writeframes(pcm.numpy().tobytes())


class Segments(Dataset):
    def __init__(self, path, length=SR // 2):
        with wave.open(path) as w:
            raw = w.readframes(w.getnframes())
        x = torch.frombuffer(bytearray(raw), dtype=torch.int16).view(-1, 2).t().float() / 32768
        self.x, self.length = x, length

    def __len__(self):
        return self.x.size(1) // self.length

    def __getitem__(self, i):
        refs = self.x[:, i * self.length:(i + 1) * self.length]
        return refs.sum(0), refs


class Solver:
    def __init__(self, model, loader, lr):
        self.model, self.loader = model, loader
        self.optim = torch.optim.Adam(model.parameters(), lr=lr)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)
        self.history = []

    def run_epoch(self, epoch):
        total = 0.0
        for i, (mix, refs) in enumerate(self.loader):
            with torch.autocast("cpu", dtype=torch.float16):
                est = self.model(mix)
            n = min(est.size(-1), refs.size(-1))
            loss = pit_l1(est[..., :n], refs[..., :n])
            self.optim.zero_grad()
            self.scaler.scale(loss).backward()
            self.scaler.unscale_(self.optim)
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
            self.scaler.step(self.optim)
            self.scaler.update()
            total += loss.item()
            if i % 5 == 0:
                print("Epoch %d | Iter %d | Average Loss %.5f | Current Loss %.5f"
                      % (epoch + 1, i + 1, total / (i + 1), loss.item()), flush=True)
        return total / len(self.loader)


def main():
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "meeting.wav")
        write_meeting(path, 80, seed=4)
        loader = DataLoader(Segments(path), batch_size=4, shuffle=False, num_workers=1)
        solver = Solver(Separator(), loader, 1e-3)
        tr = solver.run_epoch(0)
    if math.isnan(tr):
        sys.exit("Train loss is nan, stopping")
    print("Train Summary | End of Epoch 1 | Train Loss %.5f" % tr)


if __name__ == "__main__":
    main()
