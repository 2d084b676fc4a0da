"""Triplet training of a small signature encoder (bf16 autocast)."""
import argparse
import random

import torch
import torch.nn as nn
import torch.nn.functional as F


class Encoder(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(2, 16, 5, stride=2, padding=2), nn.ReLU(),
            nn.Conv1d(16, 32, 5, stride=2, padding=2), nn.ReLU(),
        )
        self.fc = nn.Linear(32, dim)

    def forward(self, x):
        return self.fc(self.conv(x).mean(-1))


def pairwise(a, b):
    return torch.sqrt(((a - b) ** 2).sum(dim=-1))


def triplet_loss(anchor, positive, negative, margin=0.5):
    d_ap = pairwise(anchor, positive)
    d_an = pairwise(anchor, negative)
    return F.relu(d_ap - d_an + margin).mean()


class Writers:
    """Strokes of every writer; most wrote several signatures, a few wrote one."""

    def __init__(self, writers, gen):
        t = torch.linspace(0, 6.28, 64)
        self.strokes = {}
        for w in range(writers):
            f = 1 + 3 * torch.rand(2, 1, generator=gen)
            ph = 6.28 * torch.rand(2, 1, generator=gen)
            count = 1 if w in (writers - 2, writers - 1) else 6
            self.strokes[w] = [torch.sin(f * t + ph) + 0.1 * torch.randn(2, 64, generator=gen) for _ in range(count)]

    def triplets(self, n, rng, upto):
        a, p, q = [], [], []
        for _ in range(n):
            w = rng.randrange(upto)
            o = rng.choice([k for k in range(upto) if k != w])
            mine = self.strokes[w]
            i = rng.randrange(len(mine))
            j = (i + 1 + rng.randrange(max(1, len(mine) - 1))) % len(mine)
            a.append(mine[i])
            p.append(mine[j])
            q.append(rng.choice(self.strokes[o]))
        return torch.stack(a), torch.stack(p), torch.stack(q)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=100)
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--writers", type=int, default=24)
    args = ap.parse_args()
    torch.manual_seed(5)
    rng = random.Random(5)
    data = Writers(args.writers, torch.Generator().manual_seed(5))
    net = Encoder()
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    for step in range(args.steps):
        upto = min(args.writers, 8 + 2 * (step // 6))
        anchor, pos, neg = data.triplets(args.batch, rng, upto)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            z = net(torch.cat([anchor, pos, neg]))
        za, zp, zn = z.float().chunk(3)
        loss = triplet_loss(za, zp, zn)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 5 == 0:
            with torch.no_grad():
                ok = (pairwise(za, zp) < pairwise(za, zn)).float().mean().item()
            print(f"{step:3d}  writers {upto:2d}  loss {loss.item():.4f}  ranked right {ok:.2f}")


if __name__ == "__main__":
    main()
