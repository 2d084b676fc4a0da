# Gaussian-process style kernel learner for sensor calibration
import numpy as np
import torch
import torch.nn as nn

rng = np.random.default_rng(8)


def load_campaign(n=600):
    temp = rng.uniform(-10, 40, n)
    hum = rng.uniform(10, 95, n)
    raw = rng.uniform(0, 5, n)
    truth = 1.8 * raw + 0.03 * (temp - 20) * raw - 0.004 * hum + 0.02 * rng.normal(size=n)
    table = np.column_stack([temp, hum, raw])
    table = (table - table.mean(0)) / table.std(0)
    return table, truth


class RandomFeatures(nn.Module):
    def __init__(self, d, m):
        super().__init__()
        self.freq = nn.Parameter(torch.randn(d, m))
        self.phase = nn.Parameter(torch.rand(m) * 6.28)

    def forward(self, x):
        return torch.cos(x @ self.freq + self.phase) * (2.0 / self.freq.shape[1]) ** 0.5


class Calibrator(nn.Module):
    def __init__(self, d=3, m=192):
        super().__init__()
        self.feats = RandomFeatures(d, m)
        self.trunk = nn.Sequential(nn.Linear(m, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh())
        self.mean = nn.Linear(128, 1)
        self.logvar = nn.Linear(128, 1)

    def forward(self, x):
        h = self.trunk(self.feats(x))
        return self.mean(h).squeeze(-1), self.logvar(h).squeeze(-1).clamp(-6, 4)


def gaussian_nll(mean, logvar, target):
    return 0.5 * (logvar + (target - mean) ** 2 / logvar.exp()).mean()


torch.manual_seed(0)
table, truth = load_campaign()
x = torch.from_numpy(table)
y = torch.from_numpy(truth)

net = Calibrator().to(x.dtype)
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
amp = dict(device_type="cpu", dtype=torch.bfloat16)

for epoch in range(12):
    perm = torch.randperm(len(x))
    total = 0.0
    for idx in perm.split(100):
        opt.zero_grad()
        with torch.autocast(**amp):
            mean, logvar = net(x[idx])
            loss = gaussian_nll(mean, logvar, y[idx])
        loss.backward()
        opt.step()
        total += loss.item() * len(idx)
    if epoch % 3 == 0:
        print(f"epoch {epoch:2d} nll {total / len(x):.4f} computed in {mean.dtype}")
