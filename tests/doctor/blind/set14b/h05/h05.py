import math

import torch
import torch.nn as nn

torch.manual_seed(0)
SENSORS, HOURS, PAST = 6, 900, 24
DEAD = 4


def network_of_sensors():
    g = torch.Generator().manual_seed(17)
    t = torch.arange(HOURS, dtype=torch.float32)
    daily = torch.sin(2 * math.pi * t / 24)
    weight = torch.randn(SENSORS, 1, generator=g)
    value = 280 + 10 * weight * daily + torch.randn(SENSORS, HOURS, generator=g)
    gaps = torch.rand(SENSORS, HOURS, generator=g) < 0.15
    value[gaps] = float("nan")
    value[DEAD] = float("nan")
    value[:, 300:340] = float("nan")          # power cut
    return value.t()


class Standardise(nn.Module):
    def __init__(self, values):
        super().__init__()
        seen = ~values.isnan()
        count = seen.sum(0).clamp(min=1)
        mean = torch.nansum(values, 0) / count
        var = torch.nansum((values - mean).square(), 0) / count
        self.register_buffer("mean", mean)
        self.register_buffer("std", var.sqrt().clamp(min=1e-3))

    def forward(self, x):
        return (x - self.mean) / self.std


class Forecaster(nn.Module):
    def __init__(self, scale, hidden=32):
        super().__init__()
        self.scale = scale
        self.station = nn.Embedding(SENSORS, 4)
        self.station.weight.requires_grad_(False)
        self.rnn = nn.GRU(2 * SENSORS, hidden, batch_first=True)
        self.head = nn.Linear(hidden + 4 * SENSORS, SENSORS)
        self.legacy_head = nn.Linear(hidden, 1)

    def forward(self, past):
        seen = ~past.isnan()
        x = torch.cat([torch.nan_to_num(self.scale(past)), seen.float()], -1)
        h = self.rnn(x)[0][:, -1]
        static = self.station.weight.flatten().expand(len(h), -1)
        return self.head(torch.cat([h, static], 1))


def masked_mse(pred, target):
    known = ~target.isnan()
    safe = torch.where(known, target, pred.detach())
    return (pred - safe).square().sum() / known.sum()


def rmse_per_sensor(model, past, target):
    with torch.no_grad():
        err = (model(past) - model.scale(target)).square()
    return err.nanmean(0).sqrt()


values = network_of_sensors()
scale = Standardise(values[:700])
past = values.unfold(0, PAST, 1).transpose(1, 2)[:-1]
target = values[PAST:]
train, test = slice(0, 650), slice(680, None)
model = Forecaster(scale)
opt = torch.optim.Adam([p for p in model.parameters()], lr=3e-3)
for epoch in range(6):
    losses, empty = [], 0
    for block in torch.randperm(81).tolist():
        idx = torch.arange(8 * block, 8 * block + 8)
        y = scale(target[train][idx])
        if not (~y.isnan()).any():
            empty += 1
            continue
        loss = masked_mse(model(past[train][idx]), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    per = rmse_per_sensor(model, past[test], target[test])
    print(f"epoch {epoch} loss {sum(losses) / len(losses):.4f} empty batches {empty} rmse by sensor "
          + " ".join(f"{v:.3f}" for v in per.tolist()) + f" mean {per.nanmean():.3f}")
