import torch


def shapes(n, seed):
    """12x12 pictures: (image, which of three shapes, which of four corners)."""
    g = torch.Generator().manual_seed(seed)
    x = 0.15 * torch.randn(n, 1, 12, 12, generator=g)
    kind = torch.randint(0, 3, (n,), generator=g)
    corner = torch.randint(0, 4, (n,), generator=g)
    stamp = torch.stack([torch.ones(5, 5), torch.eye(5) + torch.eye(5).flip(0), torch.zeros(5, 5)])
    stamp[2, 2], stamp[2, :, 2] = 1, 1
    for i in range(n):
        r, c = (int(corner[i]) // 2) * 6, (int(corner[i]) % 2) * 6
        x[i, 0, r:r + 5, c:c + 5] += stamp[kind[i]]
    return x, kind, corner
