import torch


def exp_map0(v, eps=1e-6):
    n = v.norm(dim=-1, keepdim=True).clamp_min(eps)
    return torch.tanh(n.clamp(max=6.0)) * v / n


def project(x, margin=1e-3):
    n = x.norm(dim=-1, keepdim=True)
    return torch.where(n > 1 - margin, x / n * (1 - margin), x)


def poincare_distance(u, v):
    uu = 1 - (u * u).sum(-1)
    vv = 1 - (v * v).sum(-1)
    d2 = ((u - v) ** 2).sum(-1)
    return torch.acosh(1 + 2 * d2 / (uu * vv))
