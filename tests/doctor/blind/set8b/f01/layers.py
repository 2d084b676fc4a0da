import torch
import torch.nn as nn


class StreamNorm(nn.Module):
    """Whitens activations with totals gathered over the whole stream."""

    def __init__(self, dim, dtype, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))
        self.register_buffer("first", torch.zeros(dim, dtype=dtype))
        self.register_buffer("second", torch.zeros(dim, dtype=dtype))
        self.gain = nn.Parameter(torch.ones(dim))
        self.shift = nn.Parameter(torch.zeros(dim))

    @torch.no_grad()
    def observe(self, h):
        h = h.reshape(-1, h.size(-1)).to(self.first.dtype)
        self.seen += h.size(0)
        self.first += h.sum(0)
        self.second += h.square().sum(0)

    def forward(self, h):
        if self.training:
            self.observe(h.detach())
        n = self.seen.clamp(min=1)
        mean = self.first.float() / n
        var = (self.second.float() / n - mean.square()).clamp(min=0)
        z = (h - mean) * torch.rsqrt(var + self.eps)
        return z * self.gain + self.shift


class Block(nn.Module):
    def __init__(self, dim, dtype):
        super().__init__()
        self.fc = nn.Linear(dim, dim)
        self.norm = StreamNorm(dim, dtype)
        self.act = nn.SiLU()

    def forward(self, x):
        return self.act(self.norm(self.fc(x)))
