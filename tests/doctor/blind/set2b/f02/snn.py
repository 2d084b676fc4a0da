import torch
import torch.nn as nn

from surrogate import spike


class LIFLayer(nn.Module):
    def __init__(self, n_in, n_out, beta=0.8, threshold=1.0):
        super().__init__()
        self.fc = nn.Linear(n_in, n_out)
        nn.init.normal_(self.fc.weight, 0.0, 0.8 / n_in ** 0.5)
        self.beta = beta
        self.threshold = threshold

    def forward(self, x):
        mem, out = None, []
        for t in range(x.size(0)):
            cur = self.fc(x[t])
            mem = cur if mem is None else self.beta * mem + cur
            s = spike(mem - self.threshold)
            mem = mem - s * self.threshold
            out.append(s)
        return torch.stack(out)


class Readout(nn.Module):
    def __init__(self, n_in, n_out, beta=0.8):
        super().__init__()
        self.fc = nn.Linear(n_in, n_out)
        self.beta = beta

    def forward(self, s):
        mem = 0.0
        acc = 0.0
        for t in range(s.size(0)):
            mem = self.beta * mem + self.fc(s[t])
            acc = acc + mem
        return acc / s.size(0)


class SpikingClassifier(nn.Module):
    def __init__(self, n_channels, hidden, n_classes):
        super().__init__()
        self.l1 = LIFLayer(n_channels, hidden)
        self.l2 = LIFLayer(hidden, hidden)
        self.out = Readout(hidden, n_classes)

    def forward(self, events):
        s1 = self.l1(events)
        s2 = self.l2(s1)
        return self.out(s2), (s1.mean(), s2.mean())
