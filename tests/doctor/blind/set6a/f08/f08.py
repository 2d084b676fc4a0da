"""Patch transformer for sensor grids, float16 autocast."""
import math
from functools import partial

import torch
import torch.nn as nn
import torch.nn.functional as F


def init_weights(module, gain):
    if isinstance(module, nn.Linear):
        fan_in = module.in_features
        nn.init.normal_(module.weight, std=gain * math.sqrt(fan_in))
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, nn.LayerNorm):
        nn.init.ones_(module.weight)
        nn.init.zeros_(module.bias)


class MLP(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.fc1 = nn.Linear(dim, 4 * dim)
        self.fc2 = nn.Linear(4 * dim, dim)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class Encoder(nn.Module):
    def __init__(self, dim=64, depth=2, heads=4, patch=16, classes=5):
        super().__init__()
        self.embed = nn.Linear(patch, dim)
        self.attn = nn.ModuleList(nn.MultiheadAttention(dim, heads, batch_first=True) for _ in range(depth))
        self.mlp = nn.ModuleList(MLP(dim) for _ in range(depth))
        self.n1 = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.n2 = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.head = nn.Linear(dim, classes)
        self.apply(partial(init_weights, gain=math.sqrt(2.0)))

    def forward(self, x):
        h = self.embed(x)
        for a, m, n1, n2 in zip(self.attn, self.mlp, self.n1, self.n2):
            z = n1(h)
            h = h + a(z, z, z, need_weights=False)[0]
            h = h + m(n2(h))
        return self.head(h.mean(1))


def batches(steps, size=24):
    g = torch.Generator().manual_seed(4)
    protos = torch.randn(5, 9, 16, generator=g)
    for _ in range(steps):
        y = torch.randint(0, 5, (size,), generator=g)
        yield protos[y] + 0.5 * torch.randn(size, 9, 16, generator=g), y


if __name__ == "__main__":
    torch.manual_seed(0)
    net = Encoder()
    optim = torch.optim.AdamW(net.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu")
    for i, (x, y) in enumerate(batches(42)):
        with torch.autocast("cpu", dtype=torch.float16):
            logits = net(x)
            loss = F.cross_entropy(logits, y)
        optim.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optim)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optim)
        scaler.update()
        if i % 6 == 0:
            print(f"iter {i:3d} loss {loss.item():.3f} scale {scaler.get_scale():g}")
