"""Synthetic CT-like slices in detector counts (16 bit)."""
import torch


def slices(n, kinds, seed):
    g = torch.Generator().manual_seed(seed)
    yy, xx = torch.meshgrid(torch.arange(24.), torch.arange(24.), indexing="ij")
    out, lab = [], []
    for i in range(n):
        k = i % kinds
        angle = 3.1416 * k / kinds
        wave = torch.sin((xx * torch.cos(torch.tensor(angle)) + yy * torch.sin(torch.tensor(angle))) * 0.9
                         + torch.rand(1, generator=g) * 6)
        out.append(20000 + 12000 * wave + 3000 * torch.randn(24, 24, generator=g))
        lab.append(k)
    return torch.stack(out)[:, None].clamp(0, 65535), torch.tensor(lab)
