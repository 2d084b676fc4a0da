import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.lr_scheduler import LambdaLR

torch.manual_seed(13)
torch.set_num_threads(1)

CONTEXT, HORIZON = 48, 12
STEPS, WARMUP = 400, 10


def series(n=24, length=400):
    t = torch.arange(length).float()
    per = torch.randint(8, 30, (n, 1)).float()
    s = torch.sin(6.2832 * t / per + 6 * torch.rand(n, 1)) + 0.3 * torch.sin(6.2832 * t / (3 * per))
    return s + 0.1 * torch.randn(n, length)


def batch(data, size=32):
    row = torch.randint(0, data.size(0), (size,))
    col = torch.randint(0, data.size(1) - CONTEXT - HORIZON, (size,))
    w = torch.stack([data[r, c:c + CONTEXT + HORIZON] for r, c in zip(row, col)])
    return w[:, :CONTEXT], w[:, CONTEXT:]


class MixerForecaster(nn.Module):
    def __init__(self, d=64, blocks=3):
        super().__init__()
        self.patch = nn.Linear(8, d)
        self.time = nn.ModuleList(nn.Linear(CONTEXT // 8, CONTEXT // 8) for _ in range(blocks))
        self.chan = nn.ModuleList(nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d)) for _ in range(blocks))
        self.out = nn.Linear(d * (CONTEXT // 8), HORIZON)

    def forward(self, x):
        h = self.patch(x.view(x.size(0), -1, 8))
        for tm, cm in zip(self.time, self.chan):
            h = h + tm(h.transpose(1, 2)).transpose(1, 2)
            h = h + cm(h)
        return self.out(h.flatten(1))


def warmup_factor(step):
    return (step + 1) / WARMUP


data = series()
model = MixerForecaster()
opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
sched = LambdaLR(opt, lr_lambda=warmup_factor)
best = float("inf")

for step in range(STEPS):
    x, y = batch(data)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = F.mse_loss(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step()
    if not torch.isfinite(loss):
        raise FloatingPointError(f"mse is {loss.item()} at step {step}, best was {best:.4f}")
    best = min(best, loss.item())
    if step % 25 == 0:
        print(f"step {step:3d}  mse {loss.item():.4f}  best {best:.4f}")
