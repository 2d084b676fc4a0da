import torch
import torch.nn.functional as F
from torch import nn


class AdditiveMarginSoftmax(nn.Module):
    def __init__(self, embed, classes, margin, scale):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(classes, embed) * 0.1)
        self.margin = margin
        self.scale = scale

    def forward(self, emb, target):
        cos = F.linear(F.normalize(emb.float()), F.normalize(self.weight)).float()
        shift = self.margin * F.one_hot(target, cos.shape[1])
        logits = self.scale * (cos - shift)
        return F.cross_entropy(logits, target), cos.detach()
