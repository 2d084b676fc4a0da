import math
import torch


class Schedule:
    def __init__(self, steps=100):
        t = torch.linspace(0, 1, steps + 1)
        f = torch.cos((t + 0.008) / 1.008 * math.pi / 2) ** 2
        self.abar = (f / f[0]).clamp(1e-4, 1)[1:]
        self.steps = steps

    def noise(self, x, t, eps):
        a = self.abar[t].view(-1, *([1] * (x.ndim - 1)))
        return a.sqrt() * x + (1 - a).sqrt() * eps

    def p2_weight(self, t, gamma=1.0, k=1.0):
        snr = self.abar[t] / (1 - self.abar[t])
        return 1 / (k + snr) ** gamma
