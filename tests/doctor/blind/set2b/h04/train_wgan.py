import math

import torch
from torch.amp import GradScaler, autocast

from gan import Critic, Gen, gradient_penalty


def ring(n):
    t = torch.randint(0, 8, (n,)) * (2 * math.pi / 8)
    return torch.stack([t.cos(), t.sin()], 1) * 2 + 0.05 * torch.randn(n, 2)


torch.manual_seed(1)
gen, critic = Gen(), Critic()
opt_g = torch.optim.Adam(gen.parameters(), lr=1e-3, betas=(0.0, 0.9))
opt_c = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.0, 0.9))
scaler_g, scaler_c = GradScaler("cpu", init_scale=1024.0), GradScaler("cpu", init_scale=1024.0, growth_interval=100)

for it in range(60):
    for _ in range(3):
        real = ring(128)
        with autocast("cpu", dtype=torch.float16):
            fake = gen(torch.randn(128, 16)).detach()
            wass = critic(fake).float().mean() - critic(real).float().mean()
        gp = gradient_penalty(critic, real, fake, scaler_c)
        opt_c.zero_grad()
        scaler_c.scale(wass + 10 * gp).backward()
        scaler_c.step(opt_c)
        scaler_c.update()

    opt_g.zero_grad()
    with autocast("cpu", dtype=torch.float16):
        g_loss = -critic(gen(torch.randn(128, 16))).float().mean()
    scaler_g.scale(g_loss).backward()
    opt_c.zero_grad()
    scaler_g.step(opt_g)
    scaler_g.update()
    if it % 10 == 0:
        print(f"{it:3d} wasserstein {-wass.item():.4f} gp {gp.item():.4f} g {g_loss.item():.4f}"
              f" scales {scaler_g.get_scale():g}/{scaler_c.get_scale():g}")
