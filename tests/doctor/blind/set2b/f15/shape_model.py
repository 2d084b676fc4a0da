import torch
import torch.nn as nn
import torch.nn.functional as F


class PointTower(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(3, d), nn.ReLU(), nn.Linear(d, d), nn.ReLU(), nn.Linear(d, d))

    def forward(self, pts):
        return self.mlp(pts).amax(1)


class ShapeModel(nn.Module):
    """Signed distance regression conditioned on a point cloud."""

    def __init__(self, d=64):
        super().__init__()
        self.tower = PointTower(d)
        self.sdf = nn.Sequential(nn.Linear(d + 3, d), nn.SiLU(), nn.Linear(d, d), nn.SiLU(), nn.Linear(d, 1))

    def forward(self, cloud, query):
        code = self.tower(cloud).unsqueeze(1).expand(-1, query.size(1), -1)
        return self.sdf(torch.cat([code.to(query.dtype), query], -1)).squeeze(-1)


def clamped_l1(pred, true, delta=0.3):
    return F.l1_loss(pred.clamp(-delta, delta), true.clamp(-delta, delta))
