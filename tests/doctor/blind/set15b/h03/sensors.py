import torch


def sensor_data(n=600, t=40, c=6, seed=0):
    """c coupled sensors with drop-outs; a missing reading is NaN in the input and in the target."""
    g = torch.Generator().manual_seed(seed)
    time = torch.arange(t + 8).float()
    phase = 6.28 * torch.rand(n, 1, 1, generator=g)
    freq = 0.1 + 0.3 * torch.rand(n, 1, 1, generator=g)
    gain = torch.randn(1, c, 1, generator=g)
    x = gain * torch.sin(freq * time + phase) + 0.05 * torch.randn(n, c, t + 8, generator=g)
    x[torch.rand(x.shape, generator=g) < 0.15] = float("nan")
    dead = torch.rand(n, c, generator=g) < 0.05
    x[dead] = float("nan")  # the whole channel is missing
    return x[..., :t], x[..., t:]


class Scaler:
    def fit(self, x):
        self.mean = x.nanmean(dim=(0, 2), keepdim=True)
        self.std = (x - self.mean).square().nanmean(dim=(0, 2), keepdim=True).sqrt()
        return self

    def __call__(self, x):
        return (x - self.mean) / self.std
