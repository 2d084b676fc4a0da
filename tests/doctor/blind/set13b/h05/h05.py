import math

import torch
import torch.nn as nn

# Probabilistic forecast of a noisy oscillation: a mixture density network under bfloat16 autocast.
torch.manual_seed(19)
WIDTH, K = 24, 3


def series(n, length=WIDTH + 1):
    t = torch.arange(length).float()
    freq = 0.3 + 0.4 * torch.rand(n, 1)
    phase = 2 * math.pi * torch.rand(n, 1)
    x = torch.sin(freq * t + phase)
    return x + 0.02 * torch.randn(n, length)


class MDN(nn.Module):
    def __init__(self, h=64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(WIDTH, h), nn.SiLU(), nn.Linear(h, h), nn.SiLU())
        self.out = nn.Linear(h, 3 * K)

    def forward(self, x):
        pi, mu, log_sigma = self.out(self.body(x)).float().chunk(3, dim=1)
        return pi.log_softmax(1), mu, log_sigma.clamp(-5.0, 2.0)


def log_likelihood(params, y):
    log_pi, mu, log_sigma = params
    z = (y.unsqueeze(1) - mu) * torch.exp(-log_sigma)
    comp = -0.5 * z.pow(2) - log_sigma - 0.5 * math.log(2 * math.pi)
    return torch.logsumexp(log_pi + comp, dim=1).mean()


net = MDN()
opt = torch.optim.Adam(net.parameters(), lr=2e-3, maximize=True)
sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=4e-3, total_steps=300)
history = []
for it in range(1, 301):
    batch = series(64)
    x, y = batch[:, :WIDTH], batch[:, WIDTH]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        params = net(x)
    value = log_likelihood(params, y)
    opt.zero_grad()
    value.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step()
    sched.step()
    history.append(value.item())
    if it % 50 == 0:
        with torch.no_grad():
            test = series(512)
            log_pi, mu, _ = net(test[:, :WIDTH])
            rmse = ((log_pi.exp() * mu).sum(1) - test[:, WIDTH]).pow(2).mean().sqrt().item()
        print(f"{it} objective {sum(history[-50:]) / 50:+.4f} rmse {rmse:.4f}")
