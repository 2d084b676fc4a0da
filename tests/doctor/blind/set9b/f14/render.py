import torch

NEAR, FAR = 0.5, 3.5


def sample_along(origin, direction, count, jitter):
    edges = torch.linspace(NEAR, FAR, count)
    depth = edges.expand(origin.shape[0], count)
    if jitter:
        depth = depth + torch.rand(depth.shape) * (FAR - NEAR) / count
    points = origin[:, None, :] + depth[..., None] * direction[:, None, :]
    return points, depth


def composite(sigma, rgb, depth):
    step = depth[:, 1:] - depth[:, :-1]
    tail = torch.full_like(step[:, :1], 1e10)
    step = torch.cat([step, tail], dim=-1).to(sigma.dtype)
    alpha = 1.0 - torch.exp(-sigma * step)
    keep = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1.0 - alpha + 1e-6], dim=-1), dim=-1)[:, :-1]
    weights = alpha * keep
    color = (weights[..., None] * rgb).sum(dim=1)
    return color, weights
