import torch


def unit_norm(t):
    if t.ndim <= 1:
        return t.norm()
    return t.flatten(1).norm(dim=1).view(-1, *[1] * (t.ndim - 1))


@torch.no_grad()
def limit_(parameters, ratio=0.02, eps=1e-3):
    """Bounds every unit's gradient by a share of its weight norm."""
    for p in parameters:
        if p.grad is None:
            continue
        bound = unit_norm(p).clamp(min=eps) * ratio
        size = unit_norm(p.grad)
        p.grad.mul_(torch.where(size > bound, bound / size.clamp(min=1e-6), torch.ones_like(size)))
