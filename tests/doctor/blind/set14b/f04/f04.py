import math

import torch
from torch import nn

torch.manual_seed(11)

STATIONS, DAYS, LAGS = 12, 400, 6


def rainfall():
    g = torch.Generator().manual_seed(5)
    season = torch.sin(torch.arange(DAYS) * 2 * math.pi / 90)
    humid = season[None] + 0.6 * torch.randn(STATIONS, DAYS, generator=g).cumsum(1).mul(0.1)
    wet = torch.rand(STATIONS, DAYS, generator=g) < torch.sigmoid(1.5 * humid)
    amount = torch.exp(0.7 * humid + 0.4 * torch.randn(STATIONS, DAYS, generator=g))
    return humid, torch.where(wet, amount, torch.zeros(()))


def windows(humid, rain):
    x, y = [], []
    for d in range(LAGS, DAYS):
        x.append(torch.cat([humid[:, d - LAGS:d + 1], rain[:, d - LAGS:d].log1p()], 1))
        y.append(rain[:, d])
    return torch.cat(x), torch.cat(y)


class HurdleNet(nn.Module):
    def __init__(self, inputs, hidden=48):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inputs, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU())
        self.params = nn.Linear(hidden, 3)

    def forward(self, x):
        wet_logit, mu, raw = self.params(self.body(x)).unbind(-1)
        return wet_logit, mu, nn.functional.softplus(raw) + 1e-2


def nll(wet_logit, mu, sigma, y):
    log_wet = nn.functional.logsigmoid(wet_logit)
    log_dry = nn.functional.logsigmoid(-wet_logit)
    log_y = torch.log(y)
    z = (log_y - mu) / sigma
    density = log_wet - 0.5 * z.square() - sigma.log() - log_y - 0.5 * math.log(2 * math.pi)
    return -torch.where(y > 0, density, log_dry).mean()


humid, rain = rainfall()
x, y = windows(humid, rain)
cut = int(0.8 * len(x))
perm = torch.randperm(len(x))
x, y = x[perm], y[perm]
net = HurdleNet(x.shape[1])
optim = torch.optim.Adam(net.parameters(), lr=2e-3)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(optim, 10)

print(f"{len(x)} windows, {100 * (y > 0).float().mean():.1f}% wet")
for epoch in range(10):
    total = 0.0
    for idx in torch.randperm(cut).split(128):
        loss = nll(*net(x[idx]), y[idx])
        optim.zero_grad()
        loss.backward()
        optim.step()
        total += loss.item() * len(idx)
    sched.step()
    with torch.no_grad():
        logit, mu, sigma = net(x[cut:])
        held = nll(logit, mu, sigma, y[cut:])
        acc = ((logit > 0) == (y[cut:] > 0)).float().mean()
    print(f"epoch {epoch:2d} train {total / cut:.4f} held-out {held:.4f} wet/dry acc {acc:.3f}")
