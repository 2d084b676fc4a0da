"""Small robustness helpers shared by the agents."""
import torch


def finite(grad):
    return torch.nan_to_num(grad, nan=0.0, posinf=0.0, neginf=0.0)


def protect(module):
    """One exploding sample must not wreck the network."""
    for p in module.parameters():
        if p.requires_grad:
            p.register_hook(finite)
    return module


def freeze(module):
    for p in module.parameters():
        p.requires_grad_(False)
    return module
