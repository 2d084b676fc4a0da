import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

from vae import VAE, elbo


def strokes(n=640, size=16, seed=0):
    g = torch.Generator().manual_seed(seed)
    img = torch.zeros(n, 1, size, size)
    rows = torch.randint(2, size - 2, (n,), generator=g)
    cols = torch.randint(2, size - 2, (n,), generator=g)
    horizontal = torch.rand(n, generator=g) < 0.5
    for i in range(n):
        if horizontal[i]:
            img[i, 0, rows[i] - 1:rows[i] + 1] = 1
        else:
            img[i, 0, :, cols[i] - 1:cols[i] + 1] = 1
    return TensorDataset(img)


def build_scaler(args):
    return torch.amp.GradScaler(
        "cpu",
        init_scale=args.init_scale,
        growth_factor=args.growth,
        backoff_factor=args.backoff,
        growth_interval=args.growth_interval,
    )


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=6)
    ap.add_argument("--batch-size", type=int, default=32)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--beta", type=float, default=1.0)
    ap.add_argument("--init-scale", type=float, default=65536.0)
    ap.add_argument("--growth", type=float, default=8.0)
    ap.add_argument("--backoff", type=float, default=0.97)
    ap.add_argument("--growth-interval", type=int, default=1)
    args = ap.parse_args()
    torch.manual_seed(0)

    loader = DataLoader(strokes(), batch_size=args.batch_size, shuffle=True)
    model = VAE()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    scaler = build_scaler(args)
    for epoch in range(args.epochs):
        rec_sum = kl_sum = 0.0
        for (x,) in loader:
            with torch.autocast("cpu", dtype=torch.float16):
                logits, mu, logvar = model(x)
            rec, kl = elbo(logits.float(), x, mu.float(), logvar.float())
            loss = rec + args.beta * kl
            opt.zero_grad(set_to_none=True)
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            rec_sum += rec.item()
            kl_sum += kl.item()
        n = len(loader)
        print(f"epoch {epoch} rec {rec_sum / n:.2f} kl {kl_sum / n:.3f} scale {scaler.get_scale():.1f}")


if __name__ == "__main__":
    main()
