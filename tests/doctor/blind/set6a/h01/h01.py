"""GAN on a ring of Gaussians, fp16, one scaler for two optimizers."""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


def net(i, o):
    return nn.Sequential(nn.Linear(i, 48), nn.LeakyReLU(0.2), nn.Linear(48, 48), nn.LeakyReLU(0.2), nn.Linear(48, o))


def real(n):
    a = torch.randint(0, 8, (n,)) * (2 * math.pi / 8)
    return torch.stack([a.cos(), a.sin()], 1) * 2 + 0.05 * torch.randn(n, 2)


G, D = net(8, 2), net(2, 1)
g_opt = torch.optim.Adam(G.parameters(), lr=6e-4, betas=(0.5, 0.99))
d_opt = torch.optim.Adam(D.parameters(), lr=6e-4, betas=(0.5, 0.99))
scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 22)
skipped = 0
for it in range(400):
    x, z = real(96), torch.randn(96, 8)
    d_opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        fake = G(z)
        d_real, d_fake = D(x), D(fake.detach())
        d_loss = F.softplus(-d_real.float()).mean() + F.softplus(d_fake.float()).mean()
    scaler.scale(d_loss).backward()
    scaler.step(d_opt)

    for p in D.parameters():
        p.requires_grad_(False)
    g_opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        g_loss = F.softplus(-D(fake).float()).mean()
    scaler.scale(g_loss).backward()
    for p in D.parameters():
        p.requires_grad_(True)
    scaler.step(g_opt)

    before = scaler.get_scale()
    scaler.update()
    skipped += scaler.get_scale() < before
    if it % 40 == 0 or it == 399:
        r = fake.detach().float().norm(dim=1).mean().item()
        print(f"{it:4d} D {d_loss.item():.3f} G {g_loss.item():.3f} radius {r:.2f} skipped {skipped}")
