import torch


def readings(n=1200, length=36, channels=4, seed=7):
    """Windows of plant sensors. Dropouts are NaN, saturated samples are inf."""
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(length, dtype=torch.float32)
    freq = 0.1 + 0.3 * torch.rand(n, 1, 1, generator=g)
    gain = 0.5 + torch.rand(1, channels, 1, generator=g)
    clean = gain * torch.sin(freq * t + torch.rand(n, channels, 1, generator=g) * 6.28)
    x = clean + 0.1 * torch.randn(n, channels, length, generator=g)
    x[torch.rand(x.shape, generator=g) < 0.08] = float("nan")
    x[torch.rand(x.shape, generator=g) < 0.01] = float("inf")
    return x, freq.flatten()


def impute(x):
    """Fills gaps with the channel mean of the window and adds a mask channel."""
    good = torch.isfinite(x)
    filled = torch.where(good, x, torch.zeros_like(x))
    mean = filled.sum(-1, keepdim=True) / good.sum(-1, keepdim=True).clamp(min=1)
    return torch.cat([torch.where(good, x, mean), good.float()], dim=1)
