"""Keyword spotting with a small convolution-free transformer on made-up filterbanks."""
import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F


def make_utterances(n, n_mels=16, classes=4, seed=0):
    g = torch.Generator().manual_seed(seed)
    rng = random.Random(seed)
    proto = torch.randn(classes, n_mels, generator=g)
    utts = []
    for i in range(n):
        y = rng.randrange(classes)
        t = rng.randint(12, 40)
        if i % 97 == 60:
            t = 3
        feats = proto[y] + 0.8 * torch.randn(t, n_mels, generator=g)
        utts.append((feats, y))
    return utts


def collate(batch):
    lens = torch.tensor([f.size(0) for f, _ in batch])
    feats = nn.utils.rnn.pad_sequence([f for f, _ in batch], batch_first=True)
    labels = torch.tensor([y for _, y in batch])
    return feats, lens, labels


class FrameStacker(nn.Module):
    """Stack four neighbouring frames, so that the time axis is four times shorter."""

    def __init__(self, n_mels, d):
        super().__init__()
        self.proj = nn.Linear(4 * n_mels, d)

    def forward(self, x, lens):
        b, t, f = x.shape
        extra = (-t) % 4
        x = F.pad(x, (0, 0, 0, extra))
        x = x.reshape(b, (t + extra) // 4, 4 * f)
        return self.proj(x), lens // 4


class Attention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.h, self.dk = heads, d // heads
        self.qkv = nn.Linear(d, 3 * d)
        self.out = nn.Linear(d, d)

    def forward(self, x, key_ok):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.h, self.dk).permute(2, 0, 3, 1, 4)
        att = q @ k.transpose(-1, -2) / math.sqrt(self.dk)
        att = att.masked_fill(~key_ok[:, None, None, :], float("-inf"))
        y = att.softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(b, t, d))


class Spotter(nn.Module):
    def __init__(self, n_mels=16, d=32, classes=4, layers=2):
        super().__init__()
        self.front = FrameStacker(n_mels, d)
        self.att = nn.ModuleList([Attention(d, 4) for _ in range(layers)])
        self.ff = nn.ModuleList(
            [nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 64), nn.GELU(), nn.Linear(64, d)) for _ in range(layers)]
        )
        self.norm = nn.ModuleList([nn.LayerNorm(d) for _ in range(layers)])
        self.head = nn.Linear(d, classes)

    def forward(self, feats, lens):
        x, lens = self.front(feats, lens)
        key_ok = torch.arange(x.size(1))[None, :] < lens[:, None]
        for n, a, f in zip(self.norm, self.att, self.ff):
            x = x + a(n(x), key_ok)
            x = x + f(x)
        w = key_ok.unsqueeze(-1).float()
        pooled = (x * w).sum(1) / w.sum(1).clamp(min=1.0)
        return self.head(pooled)


def main():
    torch.manual_seed(3)
    data = make_utterances(480)
    loader = torch.utils.data.DataLoader(data, batch_size=16, collate_fn=collate, shuffle=False)
    model = Spotter()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for epoch in range(2):
        for i, (feats, lens, labels) in enumerate(loader):
            loss = F.cross_entropy(model(feats, lens), labels)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            if i % 5 == 0:
                print(f"epoch {epoch} batch {i} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
