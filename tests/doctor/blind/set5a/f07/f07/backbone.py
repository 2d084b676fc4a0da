"""1-D conv backbone for vibration signals, with export of pretrained weights."""
import os
import torch
import torch.nn as nn
import torch.nn.functional as F


class Backbone(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.bn_in = nn.BatchNorm1d(1)
        self.c1 = nn.Conv1d(1, width, 9, stride=2, padding=4)
        self.b1 = nn.BatchNorm1d(width)
        self.c2 = nn.Conv1d(width, width * 2, 9, stride=2, padding=4)
        self.b2 = nn.BatchNorm1d(width * 2)

    def forward(self, x):
        x = self.bn_in(x)
        x = F.relu(self.b1(self.c1(x)))
        x = F.relu(self.b2(self.c2(x)))
        return x.mean(2)


def signals(n, classes, seed):
    """Raw accelerometer counts, a few harmonics per class."""
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, classes, (n,), generator=g)
    t = torch.arange(128).float() / 128
    f = 3.0 + 5.0 * y.float()
    phase = torch.rand(n, generator=g) * 6.28
    x = torch.sin(6.283 * f[:, None] * t + phase[:, None])
    x = 900.0 * x + 250.0 * torch.randn(n, 128, generator=g)
    return x.unsqueeze(1), y


def pretrain_and_export(path, steps=40):
    """Self-supervised stage: predict the dominant band. Writes a compact checkpoint."""
    torch.manual_seed(1)
    net = Backbone()
    head = nn.Linear(48, 4)
    opt = torch.optim.Adam([*net.parameters(), *head.parameters()], lr=3e-3)
    x, y = signals(512, 4, seed=9)
    for s in range(steps):
        i = torch.randint(0, len(x), (64,))
        loss = F.cross_entropy(head(net(x[i])), y[i])
        opt.zero_grad()
        loss.backward()
        opt.step()
    compact = {k: v.half() if v.is_floating_point() else v for k, v in net.state_dict().items()}
    torch.save({"model": compact, "loss": loss.item()}, path)
    print(f"pretrained: loss {loss.item():.3f}, wrote {os.path.basename(path)}")
