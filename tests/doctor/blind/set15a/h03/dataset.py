import torch


class RGBDScenes(torch.utils.data.Dataset):
    """depth is NaN where the sensor saw nothing, sometimes over a complete image"""

    def __init__(self, n=192, size=16, seed=3):
        g = torch.Generator().manual_seed(seed)
        lin = torch.linspace(-1, 1, size)
        yy, xx = torch.meshgrid(lin, lin, indexing="ij")
        a, b, c = torch.rand(3, n, 1, 1, generator=g)
        self.depth = 2 + 3 * c + (a - 0.5) * xx + (b - 0.5) * yy
        shade = 1 / self.depth
        self.rgb = torch.stack([shade, shade * (1 + xx), shade * (1 + yy)], 1)
        self.rgb = self.rgb + 0.02 * torch.randn(self.rgb.shape, generator=g)
        holes = torch.rand(n, size, size, generator=g) < 0.2
        self.depth[holes] = float("nan")
        self.depth[::24] = float("nan")

    def __len__(self):
        return len(self.rgb)

    def __getitem__(self, i):
        return self.rgb[i], self.depth[i]
