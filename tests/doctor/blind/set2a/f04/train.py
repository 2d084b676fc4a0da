import argparse
import random

import torch
import torch.nn.functional as F
from torch import nn


class Clip:
    """A short recording: frames of a magnitude spectrum and the class of the sound."""

    def __init__(self, frames, label):
        self.frames, self.label = frames, label


def synth(rng, label, gated, bins=32, length=20):
    base = torch.zeros(length, bins)
    g = torch.Generator().manual_seed(rng.randrange(2 ** 31))
    peak = 4 + 6 * label
    base[:, peak - 2:peak + 3] += torch.rand(length, 5, generator=g) + 0.5
    base += 0.1 * torch.rand(length, bins, generator=g)
    if gated:
        start = rng.randrange(0, length - 6)
        base[start:start + 5] = 0.0
    return Clip(base, label)


def library(seed, clean, gated):
    rng = random.Random(seed)
    first = [synth(rng, rng.randrange(4), False) for _ in range(clean)]
    second = [synth(rng, rng.randrange(4), True) for _ in range(gated)]
    return first + second


def batches(clips, size):
    for i in range(0, len(clips), size):
        part = clips[i:i + size]
        yield torch.stack([c.frames for c in part]), torch.tensor([c.label for c in part])


class FrameGain(nn.Module):
    """Brings every frame to unit energy, then applies a learned gain per channel."""

    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        energy = (x * x).mean(dim=-1, keepdim=True)
        scale = torch.rsqrt(energy + self.eps)
        return x * scale * self.gain.to(x.dtype)


class Tagger(nn.Module):
    def __init__(self, bins=32, dim=48, classes=4):
        super().__init__()
        self.inp = nn.Linear(bins, dim, bias=False)
        self.gain = FrameGain(dim)
        self.mix = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, classes)

    def forward(self, frames):
        x = self.gain(self.inp(frames))
        x, _ = self.mix(x)
        return self.out(x.mean(dim=1))


def main(argv=None):
    ap = argparse.ArgumentParser()
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--batch-size", type=int, default=16)
    ap.add_argument("--precision", choices=["fp16", "fp32"], default="fp16")
    args = ap.parse_args(argv)
    half = args.precision == "fp16"

    torch.manual_seed(0)
    clips = library(1, clean=16 * 25, gated=16 * 30)
    model = Tagger()
    opt = torch.optim.RAdam(model.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu", enabled=half, init_scale=4096.0)
    hits = seen = 0
    for step, (frames, label) in enumerate(batches(clips, args.batch_size)):
        with torch.autocast("cpu", dtype=torch.float16, enabled=half):
            logits = model(frames)
            loss = F.cross_entropy(logits.float(), label)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
        hits += (logits.argmax(1) == label).sum().item()
        seen += len(label)
        if (step + 1) % 5 == 0:
            print(f"{step + 1:3d} loss {loss.item():.4f} accuracy {hits / seen:.3f} scale {scaler.get_scale():g}")
            hits = seen = 0


if __name__ == "__main__":
    main()
