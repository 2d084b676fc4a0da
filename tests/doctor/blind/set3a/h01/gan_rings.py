import torch
import torch.nn as nn
import torch.nn.functional as F


class G(nn.Module):
    def __init__(self, z=8, w=64):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(z, w), nn.ReLU(), nn.Linear(w, w), nn.ReLU(), nn.Linear(w, 2))

    def forward(self, z):
        return self.net(z)


class D(nn.Module):
    def __init__(self, w=64):
        super().__init__()
        sn = nn.utils.parametrizations.spectral_norm
        self.net = nn.Sequential(sn(nn.Linear(2, w)), nn.LeakyReLU(0.2), sn(nn.Linear(w, w)), nn.LeakyReLU(0.2), nn.Linear(w, 1))

    def forward(self, x):
        return self.net(x).squeeze(1)


def ring(n):
    a = torch.randint(0, 8, (n,)) * (3.14159 / 4)
    return torch.stack([a.cos(), a.sin()], 1) * 2 + 0.05 * torch.randn(n, 2)


def main():
    torch.manual_seed(0)
    g, d = G(), D()
    opt_g = torch.optim.Adam(g.parameters(), lr=1e-3, betas=(0.5, 0.99))
    opt_d = torch.optim.Adam(d.parameters(), lr=1e-3, betas=(0.5, 0.99))
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 22)
    skipped = 0
    for it in range(160):
        real, z = ring(128), torch.randn(128, 8)
        # discriminator
        opt_d.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            fake = g(z)
            loss_d = F.softplus(-d(real)).mean() + F.softplus(d(fake.detach())).mean()
        scaler.scale(loss_d).backward()
        scaler.unscale_(opt_d)
        norm_d = nn.utils.clip_grad_norm_(d.parameters(), 5.0)
        scaler.step(opt_d)

        # generator
        opt_g.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            loss_g = F.softplus(-d(fake)).mean()
        scaler.scale(loss_g).backward()
        opt_d.zero_grad(set_to_none=True)
        scaler.unscale_(opt_g)
        norm_g = nn.utils.clip_grad_norm_(g.parameters(), 5.0)
        scaler.step(opt_g)

        old = scaler.get_scale()
        scaler.update()
        skipped += scaler.get_scale() < old
        if it % 20 == 0:
            print(f"{it:4d} D {loss_d.item():.3f} ({norm_d.item():.2f}) G {loss_g.item():.3f} ({norm_g.item():.2f}) "
                  f"scale {scaler.get_scale():g} skipped {skipped}")
    with torch.no_grad():
        r = g(torch.randn(500, 8)).norm(dim=1)
    print(f"radius of samples {r.mean():.2f} +- {r.std():.2f}")


main()
