import torch


class Cosine:
    def __init__(self, steps=40):
        t = torch.linspace(0, 1, steps + 1)
        bar = torch.cos((t + 0.008) / 1.008 * torch.pi / 2) ** 2
        self.steps = steps
        self.bar = (bar / bar[0])[1:].clamp(min=1e-5)
        prev = torch.cat([torch.ones(1), self.bar[:-1]])
        self.beta = (1 - self.bar / prev).clamp(max=0.999)

    def noise(self, x0, t, eps):
        b = self.bar[t][:, None]
        return b.sqrt() * x0 + (1 - b).sqrt() * eps

    def min_snr(self, t, gamma=5.0):
        snr = self.bar[t] / (1 - self.bar[t])
        return snr.clamp(max=gamma) / snr
