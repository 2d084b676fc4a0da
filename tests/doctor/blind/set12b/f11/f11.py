"""Vector-quantised autoencoder on short waveforms; encoder and decoder have their own optimizers."""
import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Codebook(nn.Module):
    def __init__(self, codes, dim):
        super().__init__()
        self.table = nn.Embedding(codes, dim)
        nn.init.uniform_(self.table.weight, -0.5, 0.5)

    def forward(self, z):
        with torch.autocast("cpu", enabled=False):
            flat = z.float().transpose(1, 2)
            w = self.table.weight
            dist = flat.square().sum(-1, keepdim=True) - 2 * flat @ w.t() + w.square().sum(-1)
            index = dist.argmin(-1)
            quant = self.table(index)
            pull = F.mse_loss(quant, flat.detach())
        return quant.transpose(1, 2), pull, index


class Encoder(nn.Module):
    def __init__(self, dim, w=24):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(1, w, 4, 2, 1), nn.ReLU(), nn.Conv1d(w, w, 4, 2, 1), nn.ReLU(), nn.Conv1d(w, dim, 1), nn.Tanh()
        )

    def forward(self, x):
        return self.net(x)


class Decoder(nn.Module):
    def __init__(self, dim, w=24):
        super().__init__()
        self.net = nn.Sequential(
            nn.ConvTranspose1d(dim, w, 4, 2, 1), nn.ReLU(), nn.ConvTranspose1d(w, w, 4, 2, 1), nn.ReLU(),
            nn.Conv1d(w, 1, 3, padding=1),
        )

    def forward(self, q):
        return self.net(q)


def waves(n, length=32):
    t = torch.linspace(0, 2 * math.pi, length)
    f = torch.randint(1, 4, (n, 1, 1)).float()
    return torch.sin(f * t + torch.rand(n, 1, 1) * 6.28) + 0.05 * torch.randn(n, 1, length)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=80)
    ap.add_argument("--codes", type=int, default=32)
    ap.add_argument("--dim", type=int, default=6)
    args = ap.parse_args()
    torch.manual_seed(0)
    enc, dec, book = Encoder(args.dim), Decoder(args.dim), Codebook(args.codes, args.dim)
    opt_enc = torch.optim.Adam(enc.parameters(), lr=3e-3)
    opt_dec = torch.optim.Adam([*dec.parameters(), *book.parameters()], lr=3e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
    for step in range(args.steps):
        x = waves(32)
        opt_enc.zero_grad(set_to_none=True)
        opt_dec.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            quant, pull, index = book(enc(x))
            recon = dec(quant)
        loss = F.mse_loss(recon.float(), x) + pull
        scaler.scale(loss).backward()
        scaler.step(opt_dec)
        scaler.step(opt_enc)
        scaler.update()
        if step % 16 == 0:
            print(f"step {step} loss {loss.item():.4f} codes used {index.unique().numel()}")


if __name__ == "__main__":
    main()
