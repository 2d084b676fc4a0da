# Keyword spotting on short clips.  Frames are cut out of the waveform, each
# frame is brought to unit loudness, then a small GRU reads the frames.
import argparse
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

FRAME = 64


class Clips(Dataset):
    def __init__(self, n, seconds_frames=24, n_words=4, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.items = []
        t = torch.arange(seconds_frames * FRAME).float()
        for i in range(n):
            word = int(torch.randint(0, n_words, (1,), generator=g))
            wave = torch.sin(2 * math.pi * t * (0.02 + 0.03 * word)) * 0.3
            wave = wave + 0.02 * torch.randn(t.numel(), generator=g)
            start = int(torch.randint(0, 4, (1,), generator=g)) * FRAME
            wave[:start] = 0.0
            if i % 9 == 0:
                wave[-3 * FRAME:] = 0.0
            self.items.append((wave, word))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class Loudness(nn.Module):
    def __init__(self, eps=1e-8):
        super().__init__()
        self.eps = eps

    def forward(self, frames):
        centered = frames - frames.mean(-1, keepdim=True)
        power = centered.pow(2).mean(-1, keepdim=True)
        return centered / torch.sqrt(power + self.eps)


class Spotter(nn.Module):
    def __init__(self, n_words):
        super().__init__()
        self.filters = nn.Linear(FRAME, 48, bias=False)
        self.loud = Loudness()
        self.rnn = nn.GRU(48, 32, batch_first=True)
        self.head = nn.Linear(32, n_words)

    def forward(self, wave):
        frames = wave.unfold(1, FRAME, FRAME)
        z = self.loud(self.filters(frames))
        out, _ = self.rnn(z.float())
        return self.head(out.mean(1))


def run(args):
    torch.manual_seed(args.seed)
    loader = DataLoader(Clips(args.clips), batch_size=args.batch, shuffle=True)
    net = Spotter(4)
    opt = torch.optim.Adam(net.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    ce = nn.CrossEntropyLoss()
    for epoch in range(args.epochs):
        total = seen = right = 0
        for wave, word in loader:
            opt.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                logits = net(wave)
                loss = ce(logits.float(), word)
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            total += loss.item() * len(word)
            right += (logits.argmax(-1) == word).sum().item()
            seen += len(word)
        print(f"epoch {epoch}: loss {total / seen:.4f} acc {right / seen:.3f}")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--clips", type=int, default=256)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--seed", type=int, default=0)
    run(p.parse_args())
