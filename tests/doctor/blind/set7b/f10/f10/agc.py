import torch


def unitwise_norm(x):
    if x.ndim <= 1:
        return x.norm(p=2)
    return x.flatten(1).norm(p=2, dim=1).view(-1, *([1] * (x.ndim - 1)))


@torch.no_grad()
def adaptive_clip(parameters, clipping=0.01, eps=1e-3):
    """Adaptive gradient clipping of the normaliser-free networks."""
    for p in parameters:
        if p.grad is None:
            continue
        limit = unitwise_norm(p).clamp_(min=eps).mul_(clipping)
        norm = unitwise_norm(p.grad)
        clipped = p.grad * (limit / norm.clamp(min=1e-6))
        p.grad.copy_(torch.where(norm < limit, p.grad, clipped))
