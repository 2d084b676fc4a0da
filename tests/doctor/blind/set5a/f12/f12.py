"""Keypoint heatmap regression on small synthetic hand images."""
import torch
import torch.nn as nn

TASK_WEIGHTS = {"detection": 1.0, "keypoints": 1e-3}


class HeatmapNet(nn.Module):
    def __init__(self, joints=16, width=16):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, width, 3, stride=2, padding=1), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
        )
        self.final = nn.Conv2d(width, joints, 1)

    def forward(self, x):
        return self.final(self.encoder(x))


class JointsMSELoss(nn.Module):
    def __init__(self, weight=1.0):
        super().__init__()
        self.weight = weight
        self.mse = nn.MSELoss()

    def forward(self, pred, target, visible):
        v = visible[:, :, None, None]
        return self.weight * self.mse(pred.float() * v, target * v)


def gaussian(h, w, cx, cy, sigma=1.5):
    ys = torch.arange(h).float()[:, None]
    xs = torch.arange(w).float()[None]
    return torch.exp(-((xs - cx) ** 2 + (ys - cy) ** 2) / (2 * sigma ** 2))


def make_batch(g, n=12, joints=16, size=64):
    """Joints sit on a grid-like hand; the image shows a bright dot for each."""
    s = size // 2
    img = torch.zeros(n, 1, size, size)
    maps = torch.zeros(n, joints, s, s)
    visible = (torch.rand(n, joints, generator=g) > 0.1).float()
    for b in range(n):
        off = torch.randint(-2, 3, (2,), generator=g)
        for j in range(joints):
            cx, cy = 5 + 7 * (j % 4) + int(off[0]), 5 + 7 * (j // 4) + int(off[1])
            maps[b, j] = gaussian(s, s, cx, cy)
            if visible[b, j]:
                img[b, 0, 2 * cy:2 * cy + 2, 2 * cx:2 * cx + 2] = 0.5 + j / 32
    return img + 0.05 * torch.randn(img.shape, generator=g), maps, visible


def main():
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(3)
    pool = [make_batch(g) for _ in range(2)]
    model = HeatmapNet()
    criterion = JointsMSELoss(TASK_WEIGHTS["keypoints"])
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    scaler = torch.amp.GradScaler(enabled=torch.cuda.is_available())

    for step in range(20):
        img, target, visible = pool[step % len(pool)]
        with torch.autocast("cpu", dtype=torch.float16):
            heat = model(img)
        loss = criterion(heat, target, visible)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if step % 3 == 0:
            print(f"step {step:2d} loss {loss.item():.3e}")


if __name__ == "__main__":
    main()
