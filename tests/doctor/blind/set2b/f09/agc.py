import torch


def unitwise_norm(x):
    if x.ndim <= 1:
        return x.norm()
    return x.flatten(1).norm(dim=1).view(-1, *([1] * (x.ndim - 1)))


@torch.no_grad()
def adaptive_clip_(params, clip_factor=0.02, eps=1e-3):
    clipped = 0
    for p in params:
        if p.grad is None:
            continue
        limit = unitwise_norm(p).clamp_min(eps) * clip_factor
        norm = unitwise_norm(p.grad)
        scaled = p.grad * (limit / norm.clamp_min(1e-6))
        too_big = norm > limit
        clipped += int(too_big.sum())
        p.grad.copy_(torch.where(too_big, scaled, p.grad))
    return clipped
