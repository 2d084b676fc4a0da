"""Keyword spotting on synthetic utterances: STFT power features, small conv net, fp16 AMP on CPU."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


def synth(keyword: int, seconds: float, gain: float, gen: torch.Generator) -> torch.Tensor:
    t = torch.arange(int(8000 * seconds)) / 8000.0
    f0 = 300.0 + 220.0 * keyword
    sig = torch.sin(2 * torch.pi * f0 * t) + 0.4 * torch.sin(2 * torch.pi * 2.1 * f0 * t)
    return gain * sig + 0.05 * torch.randn(t.numel(), generator=gen)


class Utterances(Dataset):
    def __init__(self, n: int, seed: int):
        gen = torch.Generator().manual_seed(seed)
        self.items = []
        for i in range(n):
            gain = float(torch.empty(1).uniform_(0.2, 1.0, generator=gen))
            if i % 29 == 17:
                gain *= 14.0
            self.items.append((synth(i % 6, 0.5, gain, gen), i % 6))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class Frontend(nn.Module):
    def __init__(self, n_fft=256, hop=128):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft))

    def forward(self, wav):
        spec = torch.stft(wav, self.n_fft, self.hop, window=self.window, return_complex=True)
        return spec.abs().pow(2).unsqueeze(1)


class KwsNet(nn.Module):
    def __init__(self, classes=6):
        super().__init__()
        self.frontend = Frontend()
        self.conv1 = nn.Conv2d(1, 16, (9, 3), stride=(4, 2), padding=(4, 1), bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 24, 3, stride=2, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(24)
        self.head = nn.Linear(24 * 17, classes)

    def forward(self, wav):
        x = self.frontend(wav)
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        x = x.mean(-1).flatten(1)
        return self.head(x)


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    total, correct, loss = 0, 0, 0.0
    for wav, y in loader:
        with torch.autocast("cpu", dtype=torch.float16):
            out = model(wav)
        loss += F.cross_entropy(out.float(), y, reduction="sum").item()
        correct += (out.argmax(1) == y).sum().item()
        total += y.numel()
    return loss / total, correct / total


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=4)
    ap.add_argument("--batch-size", type=int, default=16)
    ap.add_argument("--lr", type=float, default=2e-3)
    args = ap.parse_args()
    torch.manual_seed(0)
    train = DataLoader(Utterances(192, 1), args.batch_size, shuffle=True)
    val = DataLoader(Utterances(15, 2), args.batch_size)
    model = KwsNet()
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for epoch in range(args.epochs):
        model.train()
        run, n = 0.0, 0
        for wav, y in train:
            opt.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = F.cross_entropy(model(wav), y)
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            run += loss.item()
            n += 1
        vl, va = evaluate(model, val)
        print(f"epoch {epoch} train {run / n:.4f} val {vl:.4f} acc {va:.3f} scale {scaler.get_scale()}")


if __name__ == "__main__":
    main()
