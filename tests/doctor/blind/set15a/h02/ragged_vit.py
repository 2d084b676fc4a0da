"""ViT on images of different sizes: patches are padded to the longest sequence and masked with -inf."""
import argparse
import random

import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.h = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.o = nn.Linear(dim, dim)

    def forward(self, x, bias):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        logits = q @ k.transpose(-1, -2) / (d // self.h) ** 0.5
        # the class token is never padded, so that every row keeps one open key
        att = (logits.float() + bias).softmax(-1)
        assert not torch.isnan(att).any(), "attention is nan"
        return self.o((att.to(v.dtype) @ v).transpose(1, 2).reshape(b, n, d))


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.a, self.n1, self.n2 = Attention(dim, heads), nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x, bias):
        x = x + self.a(self.n1(x), bias)
        return x + self.mlp(self.n2(x))


class ViT(nn.Module):
    def __init__(self, patch=4, dim=64, depth=3, classes=4):
        super().__init__()
        self.patch = patch
        self.embed = nn.Linear(patch * patch, dim)
        self.row, self.col = nn.Embedding(16, dim), nn.Embedding(16, dim)
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.layers = nn.ModuleList(Layer(dim, 4) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, classes)

    def tokens(self, img):
        p = self.patch
        h, w = img.shape[0] // p, img.shape[1] // p
        t = img.view(h, p, w, p).transpose(1, 2).reshape(h * w, p * p)
        pos = self.row(torch.arange(h))[:, None] + self.col(torch.arange(w))[None]
        return self.embed(t) + pos.reshape(h * w, -1)

    def forward(self, imgs):
        seqs = [self.tokens(i) for i in imgs]
        lens = torch.tensor([len(s) for s in seqs])
        x = nn.utils.rnn.pad_sequence(seqs, batch_first=True)
        x = torch.cat([self.cls.expand(len(imgs), -1, -1).to(x.dtype), x], 1)
        pad = torch.arange(x.shape[1])[None] > lens[:, None]
        bias = torch.zeros(pad.shape).masked_fill(pad, float("-inf"))[:, None, None]
        for layer in self.layers:
            x = layer(x, bias)
        return self.head(self.norm(x[:, 0]))


def sample():
    h, w = random.choice([8, 16, 24, 32]), random.choice([8, 16, 24, 32])
    y = random.randrange(4)
    yy, xx = torch.meshgrid(torch.arange(h).float(), torch.arange(w).float(), indexing="ij")
    f = [yy, xx, yy + xx, yy - xx][y]
    return torch.sin(f * 0.9 + random.random() * 6) + 0.3 * torch.randn(h, w), y


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=70)
    ap.add_argument("--lr", type=float, default=1.5e-3)
    args = ap.parse_args()
    torch.manual_seed(0)
    random.seed(0)
    net = ViT()
    opt = torch.optim.AdamW(net.parameters(), lr=args.lr)
    worst = 0.0
    for step in range(args.steps):
        imgs, ys = zip(*[sample() for _ in range(16)])
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = net(imgs)
        loss = F.cross_entropy(out.float(), torch.tensor(ys))
        if torch.isnan(loss) or torch.isinf(loss):
            print("bad loss, skipping batch")
            continue
        opt.zero_grad()
        loss.backward()
        worst = max(worst, nn.utils.clip_grad_norm_(net.parameters(), 1.0).item())
        opt.step()
        if step % 7 == 0:
            acc = (out.argmax(1) == torch.tensor(ys)).float().mean().item()
            print(f"step {step:3d} loss {loss.item():.4f} acc {acc:.2f} largest norm {worst:.2f}")


if __name__ == "__main__":
    main()
