import torch


def total_norm(parameters):
    grads = [p.grad.detach() for p in parameters if p.grad is not None]
    return torch.stack([g.norm() for g in grads]).norm()


class NativeScaler:
    """Backward, unscale, clip and step in one call."""

    def __init__(self, **kw):
        self._scaler = torch.amp.GradScaler("cpu", **kw)

    def __call__(self, loss, optimizer, parameters, clip=None, last=True):
        self._scaler.scale(loss).backward()
        if not last:
            return None
        self._scaler.unscale_(optimizer)
        parameters = list(parameters)
        norm = torch.nn.utils.clip_grad_norm_(parameters, clip) if clip else total_norm(parameters)
        self._scaler.step(optimizer)
        self._scaler.update()
        return norm

    @property
    def scale(self):
        return self._scaler.get_scale()

    def state_dict(self):
        return self._scaler.state_dict()
