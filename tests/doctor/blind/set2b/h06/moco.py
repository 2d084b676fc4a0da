import argparse
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class Queue(nn.Module):
    def __init__(self, dim, size):
        super().__init__()
        self.register_buffer("keys", torch.full((size, dim), float("nan")))
        self.filled = 0
        self.ptr = 0

    @torch.no_grad()
    def push(self, k):
        n = k.size(0)
        self.keys[self.ptr:self.ptr + n] = k
        self.ptr = (self.ptr + n) % self.keys.size(0)
        self.filled = min(self.filled + n, self.keys.size(0))

    def valid(self):
        return self.keys[:self.filled]


class Encoder(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.net = nn.Sequential(nn.Conv1d(1, 16, 7, stride=2), nn.ReLU(), nn.Conv1d(16, 32, 5, stride=2), nn.ReLU(),
                                 nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Linear(128, dim))
        self.log_t = nn.Parameter(torch.tensor(2.3))

    def forward(self, x):
        return F.normalize(self.net(x).float(), dim=-1)


def two_views(n, noise):
    t = torch.linspace(0, 6.28, 96)
    f = 1 + 6 * torch.rand(n, 1)
    ph = 6.28 * torch.rand(n, 1)
    base = torch.sin(f * t + ph) + 0.5 * torch.sin(2.7 * f * t)
    return [(base * (0.8 + 0.4 * torch.rand(n, 1)) + noise * torch.randn(n, 96)).unsqueeze(1) for _ in range(2)]


def info_nce(q, k, neg, log_t):
    pos = (q * k).sum(-1, keepdim=True)
    logits = torch.cat([pos, q @ neg.t()], 1).float() * log_t.exp().clamp(max=100)
    return F.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long))


def main(args):
    torch.manual_seed(0)
    q_enc = Encoder()
    k_enc = copy.deepcopy(q_enc).requires_grad_(False)
    queue = Queue(32, 512)
    opt = torch.optim.AdamW(q_enc.parameters(), lr=args.lr)
    low = torch.full((), float("inf"))
    for step in range(args.steps):
        noise = 0.05 if step < args.steps // 2 else 1.5
        a, b = two_views(64, noise)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            q = q_enc(a)
            with torch.no_grad():
                k = k_enc(b)
            if queue.filled == 0:
                queue.push(k)
                continue
            loss = info_nce(q, k, queue.valid(), q_enc.log_t)
        opt.zero_grad()
        loss.backward()
        opt.step()
        queue.push(k)
        with torch.no_grad():
            for p, t in zip(q_enc.parameters(), k_enc.parameters()):
                t.lerp_(p, 0.05)
        low = torch.minimum(low, loss.detach())
        if step % 10 == 1:
            print(f"step {step} loss {loss.item():.3f} lowest {low.item():.3f} keys {queue.filled}")


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=80)
    ap.add_argument("--lr", type=float, default=2e-3)
    main(ap.parse_args())
