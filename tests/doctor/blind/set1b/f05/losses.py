import torch
import torch.nn as nn


class FocalLoss(nn.Module):
    def __init__(self, gamma=2.0, alpha=0.75, eps=1e-8):
        super().__init__()
        self.gamma, self.alpha, self.eps = gamma, alpha, eps

    def forward(self, logits, target):
        p = torch.sigmoid(logits)
        target = target.to(p.dtype)
        pos = -self.alpha * target * (1 - p) ** self.gamma * torch.log(p + self.eps)
        neg = -(1 - self.alpha) * (1 - target) * p ** self.gamma * torch.log(1 - p + self.eps)
        return (pos + neg).mean()


class DiceLoss(nn.Module):
    def __init__(self, smooth=1.0):
        super().__init__()
        self.smooth = smooth

    def forward(self, logits, target):
        p = torch.sigmoid(logits.float()).flatten(1)
        t = target.flatten(1)
        inter = (p * t).sum(1)
        return (1 - (2 * inter + self.smooth) / (p.sum(1) + t.sum(1) + self.smooth)).mean()


class SegmentationLoss(nn.Module):
    def __init__(self, dice_weight=1.0):
        super().__init__()
        self.focal = FocalLoss()
        self.dice = DiceLoss()
        self.dice_weight = dice_weight

    def forward(self, logits, target):
        return self.focal(logits, target) + self.dice_weight * self.dice(logits, target)
