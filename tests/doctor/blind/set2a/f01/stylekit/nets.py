import torch
from torch import nn


class Encoder(nn.Module):
    """A small frozen feature network; returns the activations of every stage."""

    def __init__(self, widths=(16, 32)):
        super().__init__()
        stages, c = [], 3
        for w in widths:
            stages.append(nn.Sequential(nn.Conv2d(c, w, 3, padding=1), nn.ReLU(),
                                        nn.Conv2d(w, w, 3, padding=1), nn.ReLU()))
            c = w
        self.stages = nn.ModuleList(stages)
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1) * 255)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, nonlinearity="relu")
                nn.init.zeros_(m.bias)
        self.requires_grad_(False)

    def forward(self, x):
        x = (x * 255 - self.mean) / 32.0
        out = []
        for i, stage in enumerate(self.stages):
            if i:
                x = nn.functional.avg_pool2d(x, 2)
            x = stage(x)
            out.append(x)
        return out


class StyleGenerator(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1), nn.InstanceNorm2d(width, affine=True), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1), nn.InstanceNorm2d(width, affine=True), nn.ReLU(),
            nn.Conv2d(width, 3, 3, padding=1))

    def forward(self, x):
        return torch.sigmoid(self.body(x))
