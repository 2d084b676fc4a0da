import torch
from torch import nn


def euclidean(a, b):
    diff = a.float() - b.float()
    return torch.sqrt(diff.pow(2).sum(dim=1))


class TripletMarginCriterion(nn.Module):
    def __init__(self, margin, swap=True):
        super().__init__()
        self.margin = margin
        self.swap = swap

    def forward(self, anchor, positive, negative):
        d_pos = euclidean(anchor, positive)
        d_neg = euclidean(anchor, negative)
        if self.swap:
            d_neg = torch.minimum(d_neg, euclidean(positive, negative))
        return torch.relu(d_pos - d_neg + self.margin).mean()
