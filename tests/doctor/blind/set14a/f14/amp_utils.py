import math

import torch


class ScaleController:
    """Chooses the loss scale from the gradient norm, so that the scaled norm is near a target."""

    def __init__(self, scaler, target=2.0 ** 14, every=5):
        self.scaler, self.target, self.every = scaler, target, every
        self.count = 0
        self.peak = 0.0

    def observe(self, norm):
        self.peak = max(self.peak, float(norm))
        self.count += 1

    def update(self):
        if self.count < self.every:
            self.scaler.update()
            return
        self.scaler.update(self.target / max(self.peak, 1e-8))
        self.count, self.peak = 0, 0.0


def grad_norm(parameters):
    return torch.stack([p.grad.norm() for p in parameters if p.grad is not None]).norm()


def fmt_scale(scaler):
    s = scaler.get_scale()
    return f"2^{math.log2(s):.1f}" if s > 0 and math.isfinite(s) else str(s)
