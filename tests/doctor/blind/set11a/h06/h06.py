"""Convolutional VAE; the ELBO is a sum over pixels and samples, intensities are photon counts."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

PEAK = 4.0


class ConvVAE(nn.Module):
    def __init__(self, latent=6, w=10):
        super().__init__()
        self.enc = nn.Sequential(
            nn.Conv2d(1, w, 4, 2, 1), nn.SiLU(),
            nn.Conv2d(w, 2 * w, 4, 2, 1), nn.SiLU(), nn.Flatten(),
        )
        self.stats = nn.Linear(2 * w * 16, 2 * latent)
        self.expand = nn.Linear(latent, 2 * w * 16)
        self.dec = nn.Sequential(
            nn.ConvTranspose2d(2 * w, w, 4, 2, 1), nn.SiLU(),
            nn.ConvTranspose2d(w, 1, 4, 2, 1),
        )
        self.w = w

    def forward(self, x):
        mu, logvar = self.stats(self.enc(x / PEAK)).float().chunk(2, dim=1)
        logvar = logvar.clamp(-8, 8)
        z = mu + torch.exp(0.5 * logvar) * torch.randn_like(mu)
        h = self.expand(z).view(-1, 2 * self.w, 4, 4)
        return self.dec(h).float().sigmoid() * PEAK, mu, logvar


def negative_elbo(recon, x, mu, logvar, beta):
    rec = F.mse_loss(recon, x, reduction="sum")
    kl = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return rec + beta * kl, rec, kl


def frames(n, g):
    ax = torch.linspace(-1, 1, 16)
    c = torch.rand(n, 2, generator=g) - 0.5
    d = (ax[None, :, None] - c[:, 0, None, None]) ** 2 + (ax[None, None, :] - c[:, 1, None, None]) ** 2
    return (PEAK * torch.exp(-d / 0.1)).round()[:, None]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--iters", type=int, default=120)
    ap.add_argument("--batch", type=int, default=32)
    ap.add_argument("--beta", type=float, default=4.0)
    ap.add_argument("--lr", type=float, default=4e-3)
    args = ap.parse_args()
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(0)
    vae = ConvVAE()
    opt = torch.optim.Adam(vae.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 8, growth_interval=25)
    backoffs = 0
    for it in range(1, args.iters + 1):
        x = frames(args.batch, g)
        with torch.autocast("cpu", dtype=torch.float16):
            recon, mu, logvar = vae(x)
            loss, rec, kl = negative_elbo(recon, x, mu, logvar, args.beta)
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        total = nn.utils.clip_grad_norm_(vae.parameters(), 1e5)
        scale = scaler.get_scale()
        scaler.step(opt)
        scaler.update()
        backoffs += scaler.get_scale() < scale
        if it % 15 == 0 or it == 1:
            print(f"{it:4d} -elbo {loss.item():.0f} rec {rec.item():.0f} kl {kl.item():.1f} |g| {float(total):.3g} backoffs {backoffs} scale {scaler.get_scale():g}")


if __name__ == "__main__":
    main()
