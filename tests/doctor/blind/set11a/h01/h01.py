"""GAN with one scaler per network (different loss magnitudes), n_critic = 2."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


def make_real(n, g):
    t = torch.linspace(-1, 1, 16)
    phase = torch.rand(n, 1, 1, generator=g) * 6.28
    wave = torch.sin(4 * t[None, :, None] + phase) * torch.cos(3 * t[None, None, :])
    return wave[:, None] * 0.8


class Up(nn.Module):
    def __init__(self, nz=8, w=16):
        super().__init__()
        self.w = w
        self.fc = nn.Linear(nz, w * 16)
        self.net = nn.Sequential(
            nn.BatchNorm2d(w), nn.ReLU(), nn.ConvTranspose2d(w, w, 4, 2, 1),
            nn.BatchNorm2d(w), nn.ReLU(), nn.ConvTranspose2d(w, 1, 4, 2, 1), nn.Tanh(),
        )

    def forward(self, z):
        return self.net(self.fc(z).view(-1, self.w, 4, 4))


class Down(nn.Module):
    def __init__(self, w=12):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, w, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Conv2d(w, w, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Flatten(), nn.Linear(16 * w, 1),
        )

    def forward(self, x):
        return self.net(x)


def hinge_d(real, fake):
    return F.relu(1 - real).mean() + F.relu(1 + fake).mean()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--iters", type=int, default=60)
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--n-critic", type=int, default=2)
    ap.add_argument("--init-scale", type=float, default=2.0 ** 22)
    args = ap.parse_args()
    torch.manual_seed(0)
    rng = torch.Generator().manual_seed(1)
    G, D = Up(), Down()
    opt_g = torch.optim.Adam(G.parameters(), lr=5e-4, betas=(0.0, 0.9))
    opt_d = torch.optim.Adam(D.parameters(), lr=1e-3, betas=(0.0, 0.9))
    scaler_g = torch.amp.GradScaler("cpu", init_scale=args.init_scale, growth_interval=50)
    scaler_d = torch.amp.GradScaler("cpu", init_scale=args.init_scale, growth_interval=50)
    skipped = {"G": 0, "D": 0}

    def apply(name, scaler, loss, optimizer):
        scaler.scale(loss).backward()
        old = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        skipped[name] += int(scaler.get_scale() < old)

    for it in range(args.iters):
        for _ in range(args.n_critic):
            z = torch.randn(args.batch, 8, generator=rng)
            opt_d.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.float16):
                fake = G(z).detach()
                loss_d = hinge_d(D(make_real(args.batch, rng)), D(fake))
            apply("D", scaler_d, loss_d, opt_d)
        z = torch.randn(args.batch, 8, generator=rng)
        opt_g.zero_grad(set_to_none=True)
        for p in D.parameters():
            p.requires_grad_(False)
        with torch.autocast("cpu", dtype=torch.float16):
            loss_g = -D(G(z)).mean()
        apply("G", scaler_g, loss_g, opt_g)
        for p in D.parameters():
            p.requires_grad_(True)
        if it % 10 == 0 or it == args.iters - 1:
            with torch.no_grad():
                gap = (G(z).std() - make_real(64, rng).std()).abs().item()
            print(f"{it:3d} D {loss_d.item():.3f} G {loss_g.item():.3f} std gap {gap:.3f} skipped {skipped} scales {scaler_d.get_scale():g}/{scaler_g.get_scale():g}")


if __name__ == "__main__":
    main()
