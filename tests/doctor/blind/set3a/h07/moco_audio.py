import copy
import torch
import torch.nn as nn
import torch.nn.functional as F


class Encoder(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(1, 16, 16, stride=8), nn.ReLU(), nn.Conv1d(16, 32, 5, stride=3), nn.ReLU())
        self.proj = nn.Linear(32, dim)

    def forward(self, wav):
        h = self.conv(wav.unsqueeze(1)).amax(2)
        return F.normalize(self.proj(h).float(), dim=1)


class MoCo(nn.Module):
    def __init__(self, size=256, dim=32, m=0.99, t=0.1):
        super().__init__()
        self.q = Encoder(dim)
        self.k = copy.deepcopy(self.q).requires_grad_(False)
        self.register_buffer("queue", torch.empty(size, dim).fill_(float("nan")))
        self.register_buffer("filled", torch.zeros(size, dtype=torch.bool))
        self.ptr, self.m, self.t = 0, m, t
        self.log_t = nn.Parameter(torch.zeros(()))

    @torch.no_grad()
    def momentum(self):
        for a, b in zip(self.k.parameters(), self.q.parameters()):
            a.lerp_(b, 1 - self.m)

    @torch.no_grad()
    def enqueue(self, keys):
        n = len(keys)
        pos = (torch.arange(n) + self.ptr) % len(self.queue)
        self.queue[pos] = keys
        self.filled[pos] = True
        self.ptr = (self.ptr + n) % len(self.queue)

    def forward(self, a, b):
        q = self.q(a)
        with torch.no_grad():
            k = self.k(b)
        pos = (q * k).sum(1, keepdim=True)
        neg = q @ self.queue[self.filled].clone().t()
        logits = torch.cat([pos, neg.to(pos.dtype)], 1).float() / (self.t * self.log_t.exp())
        return F.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long)), k
