import math

import torch


def texture_batch(size, batch, gen):
    """Striped content images and one checkered style image, values in [0, 1]."""
    ys, xs = torch.meshgrid(torch.linspace(0, 1, size), torch.linspace(0, 1, size), indexing="ij")
    freq = 2 + 6 * torch.rand(batch, 1, 1, generator=gen)
    phase = 2 * math.pi * torch.rand(batch, 1, 1, generator=gen)
    stripes = 0.5 + 0.5 * torch.sin(2 * math.pi * freq * (xs + 0.5 * ys) + phase)
    tint = torch.rand(batch, 3, 1, 1, generator=gen)
    content = stripes[:, None] * tint
    cells = ((xs * 8).floor() + (ys * 8).floor()) % 2
    style = torch.stack([cells, 1 - cells, 0.5 * cells])[None].expand(batch, -1, -1, -1)
    return content, style.contiguous()
