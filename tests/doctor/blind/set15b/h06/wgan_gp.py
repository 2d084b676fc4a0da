"""WGAN-GP for tabular rows (mixed continuous), critic with gradient penalty in mixed precision."""
import torch
import torch.nn as nn

torch.manual_seed(4)
torch.set_num_threads(1)
COLS, Z, N_CRITIC, LAMBDA = 8, 12, 3, 10.0


def real_rows(n):
    k = torch.randint(0, 3, (n, 1)).float()
    a = torch.randn(n, 3) * 0.3 + (k - 1)
    b = torch.sin(2 * a) + 0.1 * torch.randn(n, 3)
    c = torch.randn(n, 2) * 0.2 + a[:, :2] * b[:, :2]
    return torch.cat([a, b, c], 1)


class Gen(nn.Module):
    def __init__(self, h=96):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(Z, h), nn.LeakyReLU(0.2), nn.Linear(h, h), nn.LeakyReLU(0.2), nn.Linear(h, COLS))

    def forward(self, z):
        return self.net(z)


class Critic(nn.Module):
    def __init__(self, h=96):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(COLS, h), nn.LeakyReLU(0.2), nn.Linear(h, h), nn.LeakyReLU(0.2), nn.Linear(h, 1))

    def forward(self, x):
        return self.net(x).squeeze(1)


def gradient_penalty(critic, scaler, real, fake):
    eps = torch.rand(real.size(0), 1)
    mix = (eps * real + (1 - eps) * fake).requires_grad_(True)
    with torch.autocast("cpu", dtype=torch.float16):
        score = critic(mix)
    # scaled for the backward pass in half, unscaled by hand before it is used
    scaled = torch.autograd.grad(scaler.scale(score.float().sum()), mix, create_graph=True)[0]
    inv = 1.0 / scaler.get_scale()
    grad = scaled.float() * inv
    return (grad.square().sum(1).add(1e-12).sqrt() - 1).square().mean()


gen, critic = Gen(), Critic()
g_opt = torch.optim.Adam(gen.parameters(), lr=5e-4, betas=(0.5, 0.9))
c_opt = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.9))
g_scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
c_scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 15, growth_interval=500)
target = real_rows(4000)

for it in range(120):
    for _ in range(N_CRITIC):
        x = real_rows(96)
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
            fake = gen(torch.randn(96, Z))
        fake = fake.float()
        gp = gradient_penalty(critic, c_scaler, x, fake)
        with torch.autocast("cpu", dtype=torch.float16):
            w = critic(x).float().mean() - critic(fake).float().mean()
        c_loss = -w + LAMBDA * gp
        c_opt.zero_grad()
        c_scaler.scale(c_loss).backward()
        c_scaler.step(c_opt)
        c_scaler.update()

    with torch.autocast("cpu", dtype=torch.float16):
        g_loss = -critic(gen(torch.randn(96, Z))).float().mean()
    g_opt.zero_grad()
    g_scaler.scale(g_loss).backward()  # also fills the critic, which is cleared before its next step
    g_scaler.step(g_opt)
    g_scaler.update()
    if it % 15 == 0 or it == 119:
        with torch.no_grad():
            rows = gen(torch.randn(2000, Z))
        gap = (rows.mean(0) - target.mean(0)).abs().mean() + (rows.std(0) - target.std(0)).abs().mean()
        print(f"it {it:3d} wasserstein {w.item():.3f} gp {gp.item():.4f} moment gap {gap.item():.3f} "
              f"critic scale {c_scaler.get_scale():g}")
