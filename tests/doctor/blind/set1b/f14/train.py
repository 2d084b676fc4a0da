import argparse
import tempfile
from pathlib import Path

import torch

from losses import elbo
from vae import SpectrumVAE


def counts(n, bins, gen):
    """Photon counts of a spectrometer: a few lines on a background."""
    axis = torch.arange(bins).float()
    spec = 20 + 5 * torch.rand(n, 1, generator=gen) * torch.ones(bins)
    for _ in range(4):
        c = bins * torch.rand(n, 1, generator=gen)
        h = 300 * torch.rand(n, 1, generator=gen)
        spec = spec + h * torch.exp(-0.5 * ((axis - c) / 6) ** 2)
    return spec + spec.sqrt() * torch.randn(n, bins, generator=gen)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=8)
    ap.add_argument("--batch-size", type=int, default=32)
    ap.add_argument("--beta", type=float, default=0.5)
    ap.add_argument("--lr", type=float, default=1e-3)
    args = ap.parse_args()
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(0)
    data = counts(320, 512, gen)
    model = SpectrumVAE()
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.0)
    scaler = torch.amp.GradScaler("cpu")
    out = Path(tempfile.mkdtemp())
    for epoch in range(args.epochs):
        perm = torch.randperm(len(data), generator=gen)
        losses = []
        for idx in perm.split(args.batch_size):
            x = data[idx].half()
            opt.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.float16):
                recon, mu, logvar = model(x)
                loss = elbo(recon, x, mu, logvar, args.beta)
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            losses.append(loss.item())
        print(f"epoch {epoch}: elbo {sum(losses) / len(losses):.3f} scale {scaler.get_scale():g}")
        torch.save({"model": model.state_dict(), "scaler": scaler.state_dict()}, out / "last.pt")
    print("finished")


if __name__ == "__main__":
    main()
