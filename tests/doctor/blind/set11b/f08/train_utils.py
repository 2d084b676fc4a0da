import torch


class GradClipper:
    """Global-norm clipping with a running log of the norms."""

    def __init__(self, max_norm):
        self.max_norm = max_norm
        self.history = []

    def __call__(self, params):
        norm = torch.nn.utils.clip_grad_norm_(params, self.max_norm)
        self.history.append(float(norm))
        return norm


class Meter:
    def __init__(self):
        self.total, self.n = 0.0, 0

    def add(self, value, k=1):
        self.total += value * k
        self.n += k

    @property
    def mean(self):
        return self.total / max(1, self.n)
