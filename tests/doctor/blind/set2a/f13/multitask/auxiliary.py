import torch
from torch import nn
from torch.nn import functional as F

AUXILIARY = {}


class Auxiliary(nn.Module):
    weight = 1.0

    def __init_subclass__(cls, name=None, **kwargs):
        super().__init_subclass__(**kwargs)
        if name:
            AUXILIARY[name] = cls

    def loss(self, feat, batch):
        raise NotImplementedError

    def accumulate(self, feat, batch, keep):
        value = self.weight * self.loss(feat, batch)
        value.backward(retain_graph=keep)
        return value.detach()


class Where(Auxiliary, name="where"):
    def __init__(self, dim):
        super().__init__()
        self.head = nn.Linear(dim, 4)

    def loss(self, feat, batch):
        with torch.autocast("cpu", dtype=torch.float16):
            logits = self.head(feat.detach())
        self.right = (logits.argmax(1) == batch["corner"]).float().mean().item()
        return F.cross_entropy(logits.float(), batch["corner"])


class Compact(Auxiliary, name="compact"):
    weight = 1e-3

    def __init__(self, dim):
        super().__init__()

    def loss(self, feat, batch):
        return feat.float().pow(2).mean()
