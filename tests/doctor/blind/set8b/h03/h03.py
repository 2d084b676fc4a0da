"""Variational autoencoder with gradients gathered over several small batches."""
import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

from amp_utils import NativeScaler


def bars(n, size, seed):
    g = torch.Generator().manual_seed(seed)
    img = torch.zeros(n, size, size)
    for i in range(n):
        r = torch.rand(size, generator=g) < 0.2
        c = torch.rand(size, generator=g) < 0.2
        img[i, r] = 1
        img[i, :, c] = 1
    return img.flatten(1)


class VAE(nn.Module):
    def __init__(self, pixels, hidden=96, latent=16):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(pixels, hidden), nn.ReLU(), nn.Linear(hidden, 2 * latent))
        self.dec = nn.Sequential(nn.Linear(latent, hidden), nn.ReLU(), nn.Linear(hidden, pixels))

    def forward(self, x):
        mu, logvar = self.enc(x).float().chunk(2, -1)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.dec(z), mu, logvar


def elbo(logits, x, mu, logvar, beta):
    rec = F.binary_cross_entropy_with_logits(logits, x, reduction="sum")
    kl = -0.5 * (1 + logvar - mu.square() - logvar.exp()).sum()
    return rec + beta * kl, rec, kl


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=8)
    ap.add_argument("--batch", type=int, default=32)
    ap.add_argument("--accum", type=int, default=4)
    ap.add_argument("--clip", type=float, default=500.0)
    ap.add_argument("--lr", type=float, default=3e-3)
    args = ap.parse_args()
    torch.manual_seed(0)
    data = bars(1600, 8, 3)
    loader = DataLoader(TensorDataset(data), args.batch, shuffle=True)
    net = VAE(64)
    opt = torch.optim.Adam(net.parameters(), lr=args.lr)
    scaler = NativeScaler()
    updates = 0
    for epoch in range(args.epochs):
        beta = min(1.0, (epoch + 1) / 4)
        rec_sum = kl_sum = 0.0
        norms = []
        opt.zero_grad()
        for i, (x,) in enumerate(loader):
            last = (i + 1) % args.accum == 0 or i + 1 == len(loader)
            with torch.autocast("cpu", dtype=torch.float16):
                logits, mu, logvar = net(x)
                loss, rec, kl = elbo(logits.float(), x, mu, logvar, beta)
            norm = scaler(loss, opt, net.parameters(), clip=args.clip, last=last)
            if last:
                opt.zero_grad()
                updates += 1
                if math.isfinite(norm):
                    norms.append(norm.item())
            rec_sum += rec.item()
            kl_sum += kl.item()
        n = len(data)
        shown = sum(norms) / len(norms) if norms else float("nan")
        print(f"epoch {epoch} rec {rec_sum / n:.3f} kl {kl_sum / n:.3f} |g| {shown:.0f} scale {scaler.scale:g} updates {updates}")


if __name__ == "__main__":
    main()
