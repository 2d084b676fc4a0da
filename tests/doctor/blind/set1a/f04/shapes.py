import torch


def sample_shape(kind, n, g):
    u = torch.randn(n, 3, generator=g)
    if kind == 0:
        p = u / u.norm(dim=1, keepdim=True)
    elif kind == 1:
        p = torch.rand(n, 3, generator=g) * 2 - 1
    elif kind == 2:
        a = torch.rand(n, generator=g) * 6.2832
        p = torch.stack([a.cos(), a.sin(), torch.rand(n, generator=g) * 2 - 1], 1)
    else:
        p = u * torch.tensor([1.0, 0.6, 0.1])
    return p * (0.8 + 0.4 * torch.rand(1, generator=g))


def random_point_dropout(p, g, max_ratio=0.5):
    ratio = torch.rand(1, generator=g).item() * max_ratio
    drop = torch.rand(p.shape[0], generator=g) <= ratio
    keep = p[0].clone()
    p[drop] = keep
    return p


def batches(steps, bs, npts, g, augment):
    for _ in range(steps):
        y = torch.randint(0, 4, (bs,), generator=g)
        pts = [sample_shape(int(k), npts, g) for k in y]
        if augment:
            pts = [random_point_dropout(p, g) for p in pts]
        yield torch.stack(pts), y
