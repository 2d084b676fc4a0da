# 6D rotation regression for object pose from rendered crops
import math

import torch
from torch import nn


def rot6d_to_matrix(x):
    a, b = x[..., :3], x[..., 3:]
    e1 = a / a.norm(dim=-1, keepdim=True).clamp_min(1e-6)
    b = b - (e1 * b).sum(-1, keepdim=True) * e1
    e2 = b / b.norm(dim=-1, keepdim=True).clamp_min(1e-6)
    return torch.stack([e1, e2, torch.linalg.cross(e1, e2)], dim=-1)


def axis_angle_matrix(axis, angle):
    K = torch.zeros(axis.shape[0], 3, 3)
    K[:, 0, 1], K[:, 0, 2] = -axis[:, 2], axis[:, 1]
    K[:, 1, 0], K[:, 1, 2] = axis[:, 2], -axis[:, 0]
    K[:, 2, 0], K[:, 2, 1] = -axis[:, 1], axis[:, 0]
    s, c = angle.sin()[:, None, None], angle.cos()[:, None, None]
    return torch.eye(3) + s * K + (1 - c) * (K @ K)


def geodesic_distance(R1, R2):
    """angle of the relative rotation, in radians"""
    trace = (R1 * R2).sum((-1, -2))
    cos = ((trace - 1) / 2).clamp(-1.0, 1.0)
    return torch.acos(cos)


def relative_loss(pred, target):
    """the angles between the views of a batch should agree as well"""
    dp = geodesic_distance(pred[:, None], pred[None])
    dt = geodesic_distance(target[:, None], target[None])
    return (dp - dt).abs().mean()


class PoseNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.SiLU(),
            nn.Conv2d(8, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.SiLU(),
            nn.Conv2d(16, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.SiLU(),
            nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        )
        self.out = nn.Linear(128, 6)
        with torch.no_grad():
            # start near the canonical view
            self.out.bias.copy_(torch.tensor([1.0, 0, 0, 0, 1.0, 0]))

    def forward(self, x):
        return self.out(self.features(x))


CLOUD = torch.randn(40, 3, generator=torch.Generator().manual_seed(5)) * torch.tensor([1.0, 0.5, 0.25])


def render(R, size=32):
    pts = CLOUD @ R.transpose(-1, -2)
    grid = torch.linspace(-2, 2, size)
    gx = torch.exp(-((pts[:, :, 0:1] - grid) ** 2) * 20)
    gy = torch.exp(-((pts[:, :, 1:2] - grid) ** 2) * 20)
    return torch.einsum("bnx,bny->byx", gx, gy)[:, None]


def make_dataset(n):
    axis = nn.functional.normalize(torch.randn(n, 3), dim=-1)
    angle = torch.rand(n) * math.pi / 2
    R = axis_angle_matrix(axis, angle)
    return render(R), R


def main():
    torch.manual_seed(0)
    images, rotations = make_dataset(320)
    model = PoseNet()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)
    for epoch in range(3):
        order = torch.randperm(len(images))
        total = 0.0
        for idx in order.split(32):
            opt.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                r6 = model(images[idx])
            R = rot6d_to_matrix(r6.float())
            angle = geodesic_distance(R, rotations[idx]).mean()
            loss = angle + 0.5 * relative_loss(R, rotations[idx])
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            total += angle.item()
        mean = math.degrees(total / 10)
        print(f"epoch {epoch}: mean error {mean:.2f} deg  lr {opt.param_groups[0]['lr']:g}")


if __name__ == "__main__":
    main()
