import math

import torch
from torch import nn


class LoRALinear(nn.Module):
    def __init__(self, base, rank, alpha):
        super().__init__()
        self.base = base
        self.a = nn.Parameter(torch.randn(rank, base.in_features) / math.sqrt(base.in_features))
        self.b = nn.Parameter(torch.zeros(base.out_features, rank))
        self.gain = alpha / rank

    def forward(self, x):
        return self.base(x) + self.gain * ((x @ self.a.t()) @ self.b.t())


def inject(model, names, rank=4, alpha=8):
    """Freeze the model and wrap the linear layers whose name ends in one of names."""
    for p in model.parameters():
        p.requires_grad_(False)
    for name, module in list(model.named_modules()):
        if isinstance(module, nn.Linear) and name.split(".")[-1] in names:
            parent = model.get_submodule(name.rpartition(".")[0])
            setattr(parent, name.split(".")[-1], LoRALinear(module, rank, alpha))
    return model
