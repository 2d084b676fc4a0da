"""Learned image codec, toy size: autoencoder on 16x16 patches trained with
momentum SGD; the rate follows the batch size."""
import math

import torch
from torch import nn


class Patches:
    """Smooth random patches, generated on the fly."""

    def __init__(self, size=16, seed=0):
        self.size, self.g = size, torch.Generator().manual_seed(seed)
        t = torch.linspace(0, math.pi, size)
        self.basis = torch.stack([torch.cos(k * t) for k in range(5)])

    def draw(self, n):
        c = torch.randn(n, 5, 5, generator=self.g) / (1 + torch.arange(5.))
        return torch.einsum("nij,ix,jy->nxy", c, self.basis, self.basis)[:, None]


class Codec(nn.Module):
    def __init__(self, bottleneck=12):
        super().__init__()
        self.enc = nn.Sequential(nn.Conv2d(1, 16, 5, 2, 2), nn.LeakyReLU(0.1),
                                 nn.Conv2d(16, 32, 5, 2, 2), nn.LeakyReLU(0.1),
                                 nn.Flatten(), nn.Linear(512, bottleneck))
        self.dec = nn.Sequential(nn.Linear(bottleneck, 512), nn.LeakyReLU(0.1),
                                 nn.Unflatten(1, (32, 4, 4)),
                                 nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.LeakyReLU(0.1),
                                 nn.ConvTranspose2d(16, 1, 4, 2, 1))

    def forward(self, x):
        z = self.enc(x)
        if self.training:
            z = z + (torch.rand_like(z) - 0.5) * 0.1
        return self.dec(z), z


class Schedule:
    def __init__(self, optimizer, peak, warmup, total):
        self.o, self.peak, self.warmup, self.total = optimizer, peak, warmup, total

    def set(self, step):
        f = step / self.warmup if step < self.warmup else 0.5 * (
            1 + math.cos(math.pi * (step - self.warmup) / (self.total - self.warmup)))
        for group in self.o.param_groups:
            group["lr"] = self.peak * f
        return self.peak * f


BATCH = 64
BASE_LR = 0.01
STEPS = 120

torch.manual_seed(1)
data = Patches()
codec = Codec()
peak_lr = BASE_LR * BATCH
sgd = torch.optim.SGD(codec.parameters(), lr=peak_lr, momentum=0.9, nesterov=True)
schedule = Schedule(sgd, peak_lr, 40, STEPS)
for step in range(STEPS):
    lr = schedule.set(step)
    x = data.draw(BATCH)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y, z = codec(x)
        distortion = nn.functional.mse_loss(y.float(), x)
        rate = z.float().pow(2).mean()
    loss = distortion + 1e-3 * rate
    sgd.zero_grad()
    loss.backward()
    sgd.step()
    if step % 12 == 0:
        print(f"step {step:4d} lr {lr:.3f} distortion {distortion.item():.4f} rate {rate.item():.4f}")
