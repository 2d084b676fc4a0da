import torch


def tiles(n, classes, seed, size=16):
    """Reflectance tiles in sensor counts (0..10000) with a class dependent texture."""
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, classes, (n,), generator=g)
    base = torch.tensor([[900, 1400, 2600, 3200], [1500, 1200, 800, 300],
                         [2200, 2500, 2900, 3300], [600, 900, 700, 4200.0]])[y % 4]
    wave = torch.sin(torch.arange(size).float() * (0.4 + 0.5 * (y.float()[:, None] + 1)))
    x = base[:, :, None, None] + 700 * wave[:, None, None, :] + 250 * torch.randn(n, 4, size, size, generator=g)
    return x.clamp(0, 10000), y
