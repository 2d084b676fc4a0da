import math

import torch
import torch.nn as nn


class LoRALinear(nn.Module):
    def __init__(self, base, rank=4, alpha=8.0):
        super().__init__()
        self.base = base
        self.base.requires_grad_(False)
        self.a = nn.Parameter(torch.empty(rank, base.in_features))
        self.b = nn.Parameter(torch.zeros(base.out_features, rank))
        nn.init.kaiming_uniform_(self.a, a=math.sqrt(5))
        self.gain = alpha / rank

    def forward(self, x):
        return self.base(x) + self.gain * (x @ self.a.t()) @ self.b.t()


def inject(model, names, rank=4):
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if name in names and isinstance(child, nn.Linear):
                setattr(module, name, LoRALinear(child, rank))
    return model


class EMA:
    """Average of the trainable parameters only, swapped in for evaluation."""

    def __init__(self, params, decay=0.95):
        self.params = list(params)
        self.decay = decay
        self.avg = [p.detach().clone() for p in self.params]

    @torch.no_grad()
    def update(self):
        for a, p in zip(self.avg, self.params):
            a.lerp_(p, 1 - self.decay)

    @torch.no_grad()
    def swap(self):
        for a, p in zip(self.avg, self.params):
            tmp = p.clone()
            p.copy_(a)
            a.copy_(tmp)
