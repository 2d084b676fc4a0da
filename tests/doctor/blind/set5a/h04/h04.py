"""2-D ring GAN with two optimizers and one scaler (hinge loss)."""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


def ring(n):
    k = torch.randint(0, 8, (n,))
    a = 2 * math.pi * k / 8
    return torch.stack([a.cos(), a.sin()], 1) * 2 + 0.05 * torch.randn(n, 2)


class Generator(nn.Module):
    def __init__(self, z=8, h=64):
        super().__init__()
        self.z = z
        self.net = nn.Sequential(nn.Linear(z, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, 2))

    def forward(self, n):
        return self.net(torch.randn(n, self.z))


class Critic(nn.Module):
    def __init__(self, h=64):
        super().__init__()
        sn = nn.utils.parametrizations.spectral_norm
        self.net = nn.Sequential(
            sn(nn.Linear(2, h)), nn.LeakyReLU(0.2), sn(nn.Linear(h, h)), nn.LeakyReLU(0.2), sn(nn.Linear(h, 1)))

    def forward(self, x):
        return self.net(x).squeeze(1)


def toggle(module, on):
    for p in module.parameters():
        p.requires_grad_(on)


def main(steps=240, batch=64, d_per_g=2):
    G, D = Generator(), Critic()
    og = torch.optim.Adam(G.parameters(), lr=2e-3, betas=(0.0, 0.9))
    od = torch.optim.Adam(D.parameters(), lr=2e-3, betas=(0.0, 0.9))
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 14)
    amp = dict(device_type="cpu", dtype=torch.float16)

    for step in range(steps):
        toggle(D, True)
        for _ in range(d_per_g):
            od.zero_grad()
            with torch.autocast(**amp):
                with torch.no_grad():
                    fake = G(batch)
                s_real, s_fake = D(ring(batch)), D(fake)
                d_loss = F.relu(1 - s_real.float()).mean() + F.relu(1 + s_fake.float()).mean()
            scaler.scale(d_loss).backward()
            scaler.step(od)
            scaler.update()

        toggle(D, False)
        og.zero_grad()
        with torch.autocast(**amp):
            g_loss = -D(G(batch)).float().mean()
        scaler.scale(g_loss).backward()
        scaler.step(og)
        scaler.update()

        if step % 40 == 0 or step == steps - 1:
            with torch.no_grad():
                pts = G(512)
            r = pts.norm(dim=1)
            print(f"step {step:3d} d {d_loss.item():.3f} g {g_loss.item():+.3f} radius {r.mean():.2f}±{r.std():.2f}")


main()
