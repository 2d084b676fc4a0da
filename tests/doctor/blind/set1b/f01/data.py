import math

import torch


def make_cloud(label, n, gen):
    """Points on one of four surfaces, in millimetres."""
    u = torch.rand(n, generator=gen) * 2 * math.pi
    v = torch.rand(n, generator=gen) * 2 - 1
    if label == 0:      # sphere
        r = torch.sqrt(1 - v * v)
        p = torch.stack([r * u.cos(), r * u.sin(), v], -1)
    elif label == 1:    # cylinder
        p = torch.stack([u.cos(), u.sin(), v], -1)
    elif label == 2:    # disc
        r = torch.sqrt((v + 1) / 2)
        p = torch.stack([r * u.cos(), r * u.sin(), torch.zeros(n)], -1)
    else:               # cone
        h = (v + 1) / 2
        p = torch.stack([h * u.cos(), h * u.sin(), h], -1)
    scale = 240 + 160 * torch.rand(1, generator=gen)
    return p * scale


def make_batch(batch_size, n_points, gen):
    labels = torch.randint(0, 4, (batch_size,), generator=gen)
    clouds = [make_cloud(int(l), n_points, gen) for l in labels]
    return torch.stack(clouds), labels


def points_at(step, total, lo=64, hi=4096):
    """Coarse to fine: the clouds get denser during training."""
    stage = int(4 * step / total)
    return min(hi, lo * (4 ** stage))
