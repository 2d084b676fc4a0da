import torch
import torch.nn as nn
import torch.nn.functional as F


class SoftDice(nn.Module):
    def __init__(self, smooth=1.0):
        super().__init__()
        self.smooth = smooth

    def forward(self, logits, target):
        p = torch.sigmoid(logits).reshape(-1)
        t = target.reshape(-1).to(p.dtype)
        inter = (p * t).sum()
        denom = p.sum() + t.sum()
        return 1 - (2 * inter + self.smooth) / (denom + self.smooth)


class SegLoss(nn.Module):
    def __init__(self, w_dice=1.0, w_bce=0.3):
        super().__init__()
        self.dice = SoftDice()
        self.w_dice = w_dice
        self.w_bce = w_bce

    def forward(self, logits, target):
        bce = F.binary_cross_entropy_with_logits(logits, target)
        dice = self.dice(logits, target)
        return self.w_dice * dice + self.w_bce * bce, {"bce": bce.detach(), "dice": dice.detach()}
