import torch
from torch.utils.data import Dataset


class StereoScenes(Dataset):
    """Slanted planes seen by a stereo rig; ground truth from a depth sensor with holes."""

    def __init__(self, n, size=48, focal=30.0, baseline=0.5, seed=0):
        self.n, self.size = n, size
        self.fb = focal * baseline
        self.seed = seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed * 10007 + i)
        s = self.size
        yy, xx = torch.meshgrid(torch.linspace(-1, 1, s), torch.linspace(-1, 1, s), indexing="ij")
        a, b, c = torch.rand(3, generator=g)
        depth = 3.0 + 2 * c + a * xx + b * yy
        true_disp = self.fb / depth
        left = torch.randn(1, s, s, generator=g)
        left = torch.nn.functional.avg_pool2d(left, 3, 1, 1)
        # warp to get the right view
        gx = xx + 2 * true_disp / s
        right = torch.nn.functional.grid_sample(
            left[None], torch.stack([gx, yy], -1)[None], align_corners=True, padding_mode="border")[0]
        if i % 9 == 4:
            # no return from this patch: the sensor writes 0
            y0, x0 = torch.randint(0, s - 8, (2,), generator=g).tolist()
            depth[y0:y0 + 8, x0:x0 + 8] = 0.0
        disp = self.fb / depth
        valid = (disp > 0) & (yy.abs() < 0.9)
        return torch.cat([left, right]), disp[None], valid[None]
