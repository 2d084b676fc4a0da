import torch
from torch import nn


class Charbonnier(nn.Module):
    def __init__(self, eps=1e-3):
        super().__init__()
        self.eps = eps

    def forward(self, a, b):
        return torch.sqrt((a - b) ** 2 + self.eps ** 2).mean()


class TotalVariation(nn.Module):
    """Isotropic total variation of a batch of images."""

    def forward(self, img):
        dx = img[:, :, :-1, 1:] - img[:, :, :-1, :-1]
        dy = img[:, :, 1:, :-1] - img[:, :, :-1, :-1]
        return torch.sqrt(dx * dx + dy * dy).mean()


class Objective(nn.Module):
    def __init__(self, tv_weight, tv_from):
        super().__init__()
        self.pixel = Charbonnier()
        self.tv = TotalVariation()
        self.tv_weight, self.tv_from = tv_weight, tv_from

    def forward(self, out, clean, epoch):
        out, clean = out.float(), clean.float()
        parts = {"pixel": self.pixel(out, clean)}
        if epoch >= self.tv_from:
            parts["tv"] = self.tv_weight * self.tv(out)
        return sum(parts.values()), {k: v.detach() for k, v in parts.items()}
