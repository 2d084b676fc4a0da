import torch
import torch.nn as nn
import torch.nn.functional as F

from trainer import Trainer


class MinimalGRU(nn.Module):
    def __init__(self, d_in, d):
        super().__init__()
        self.x = nn.Linear(d_in, 2 * d)
        self.h = nn.Linear(d, d, bias=False)
        self.f = nn.Linear(d, d, bias=False)
        self.d = d

    def forward(self, seq):
        h = seq.new_zeros(seq.size(0), self.d)
        xs = self.x(seq)
        out = []
        for t in range(seq.size(1)):
            a, b = xs[:, t].chunk(2, -1)
            f = torch.sigmoid(a + self.f(h))
            h = (1 - f) * h + f * torch.tanh(b + self.h(f * h))
            out.append(h)
        return torch.stack(out, 1)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = MinimalGRU(12, 40)
        self.out = nn.Linear(40, 6)

    def forward(self, x):
        return self.out(self.rnn(x))


def ce(logits, y):
    return F.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=-100)


torch.manual_seed(0)
proto = torch.randn(6, 12)
trainer = Trainer(Tagger(), ce, lr=5e-3, max_norm=1.0, init_scale=2.0 ** 28)
for i in range(60):
    y = torch.randint(0, 6, (16, 5)).repeat_interleave(5, 1)
    x = proto[y] + torch.randn(16, 25, 12)
    y = y.masked_fill(torch.rand(y.shape) < 0.1, -100)
    loss, norm = trainer.step(x, y)
    if i < 8 or i % 10 == 0:
        print(f"step {i} loss {loss:.4f} grad_norm {norm:.4f} scale {trainer.scaler.get_scale():g}")
print(trainer.summary())
