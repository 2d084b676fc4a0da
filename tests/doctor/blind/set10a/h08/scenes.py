"""Rendered spheres in front of sky; the renderer reports infinite depth for the sky."""
import torch


def render(n, g, size=32):
    axis = torch.linspace(-1, 1, size)
    yy, xx = torch.meshgrid(axis, axis, indexing="ij")
    depth = torch.full((n, size, size), float("inf"))
    ground = (yy > 0.2).expand(n, -1, -1)
    depth[ground] = (2.0 / (yy + 0.3)).expand(n, -1, -1)[ground]
    shade = torch.where(ground, 0.3 + 0.4 * yy, 0.9 - 0.0 * yy)
    for _ in range(2):
        c = torch.rand(n, 2, 1, 1, generator=g) * 1.4 - 0.7
        r = 0.2 + 0.25 * torch.rand(n, 1, 1, generator=g)
        d2 = (xx - c[:, 0]) ** 2 + (yy - c[:, 1]) ** 2
        inside = d2 < r ** 2
        z = 1.2 / r - torch.sqrt((r ** 2 - d2).clamp(min=0))
        front = inside & (z < depth)
        depth = torch.where(front, z, depth)
        shade = torch.where(front, 1.0 - z / 8.0, shade)
    img = shade[:, None] + 0.03 * torch.randn(n, 1, size, size, generator=g)
    return img, depth


def to_disparity(depth):
    """Inverse depth; the sky becomes zero."""
    return torch.where(torch.isinf(depth), torch.zeros_like(depth), 1.0 / depth)
