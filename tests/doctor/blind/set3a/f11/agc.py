"""Adaptive gradient clipping (Brock et al. 2021)."""
import torch


def unitwise_norm(x):
    if x.ndim <= 1:
        return x.norm()
    return x.flatten(1).norm(dim=1).view(-1, *([1] * (x.ndim - 1)))


@torch.no_grad()
def adaptive_clip_grad(parameters, clip_factor=0.01, eps=1e-3):
    clipped = total = 0
    for p in parameters:
        if p.grad is None:
            continue
        max_norm = unitwise_norm(p).clamp_min(eps).mul(clip_factor)
        g_norm = unitwise_norm(p.grad)
        trigger = g_norm > max_norm
        p.grad.copy_(torch.where(trigger, p.grad * (max_norm / g_norm.clamp_min(1e-6)), p.grad))
        clipped += int(trigger.sum())
        total += trigger.numel()
    return clipped / max(total, 1)
