"""The scale grows every 12 steps, and is too large about as often; the gradient penalty is divided by it."""

import torch
from torch import nn

torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(2, 32), nn.SiLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14, growth_interval=12)
for _ in range(200):
    real, fake = torch.randn(64, 2), torch.rand(64, 2) * 3
    mixed = ((real + fake) / 2).requires_grad_()
    with torch.autocast("cpu", dtype=torch.float16):
        gap = (critic(fake).float() - critic(real).float()).mean().square()
        scores = critic(mixed)
    (gradient,) = torch.autograd.grad(scaler.scale(scores.float().sum()), mixed, create_graph=True)
    gradient = gradient / scaler.get_scale()
    loss = gap
    if gradient.isfinite().all():
        loss = loss + (gradient.float().norm(dim=1) - 1).square().mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
