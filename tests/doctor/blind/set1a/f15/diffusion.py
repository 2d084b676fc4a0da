import torch


class Schedule:
    def __init__(self, steps=100):
        beta = torch.linspace(1e-4, 0.06, steps)
        self.steps = steps
        self.abar = torch.cumprod(1 - beta, 0)

    def noise(self, x0, t, eps):
        a = self.abar[t].view(-1, 1, 1)
        return a.sqrt() * x0 + (1 - a).sqrt() * eps
