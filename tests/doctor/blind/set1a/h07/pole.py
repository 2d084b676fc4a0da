import math

import torch


class Pole:
    """Pole balancing with the usual equations; +10 for a step, -100 for a fall."""

    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)

    def reset(self):
        self.s = ((torch.rand(4, generator=self.g) - 0.5) * 0.1).tolist()
        self.n = 0
        return torch.tensor(self.s)

    def step(self, a):
        x, v, th, w = self.s
        f = 10.0 if a else -10.0
        c, s = math.cos(th), math.sin(th)
        tmp = (f + 0.05 * w * w * s) / 1.1
        acc = (9.8 * s - c * tmp) / (0.5 * (4 / 3 - 0.1 * c * c / 1.1))
        xacc = tmp - 0.05 * acc * c / 1.1
        self.s = [x + 0.02 * v, v + 0.02 * xacc, th + 0.02 * w, w + 0.02 * acc]
        self.n += 1
        fell = abs(self.s[0]) > 2.4 or abs(self.s[2]) > 0.21
        return torch.tensor(self.s), (-100.0 if fell else 10.0), fell, fell or self.n >= 200
