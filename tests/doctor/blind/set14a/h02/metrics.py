import torch


def class_iou(pred, target, classes, ignore):
    """IoU per class; a class that is in neither map has no IoU (nan)."""
    keep = target != ignore
    out = torch.empty(classes)
    for c in range(classes):
        p, t = (pred == c) & keep, (target == c) & keep
        out[c] = (p & t).sum() / (p | t).sum()
    return out


class Meter:
    def __init__(self, classes):
        self.rows, self.classes = [], classes

    def add(self, row):
        self.rows.append(row)

    def result(self):
        return torch.stack(self.rows).nanmean(0)
