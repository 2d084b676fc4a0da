import torch


class RoadScenes:
    """Image plus metric depth; the sky has no return, so its depth is inf (disparity 0)."""

    def __init__(self, n, size=24, seed=0):
        g = torch.Generator().manual_seed(seed)
        rows = torch.arange(size).float()
        self.images, self.depths = [], []
        for _ in range(n):
            horizon = int(torch.randint(5, 11, (1,), generator=g))
            disparity = ((rows - horizon).clamp(min=0) / size)[:, None].expand(size, size).clone()
            x = int(torch.randint(2, size - 8, (1,), generator=g))
            disparity[horizon:horizon + 6, x:x + 6] = disparity[horizon + 6, 0]
            depth = 1.0 / disparity
            shade = disparity * 2 + 0.05 * torch.randn(size, size, generator=g)
            shade[disparity == 0] = 1.5
            self.images.append(shade[None])
            self.depths.append(depth[None])

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i], self.depths[i]
