"""Region losses for volumetric segmentation."""
import torch
import torch.nn as nn


class BatchDiceLoss(nn.Module):
    """Soft dice over the whole batch, as in nnU-Net's batch_dice=True."""

    def __init__(self, smooth: float = 1.0):
        super().__init__()
        self.smooth = smooth

    def forward(self, logits, target):
        probs = torch.sigmoid(logits)
        axes = [0] + list(range(2, logits.ndim))
        intersect = (probs * target).sum(axes)
        p_total = probs.sum(axes)
        t_total = target.sum(axes)
        dice = (2.0 * intersect + self.smooth) / (p_total + t_total + self.smooth)
        return 1.0 - dice.mean()
