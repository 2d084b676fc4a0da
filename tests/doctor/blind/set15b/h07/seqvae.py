"""Sequence VAE with free bits and KL annealing; small micro-batches, one step per 8 of them."""
import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Cell(nn.Module):
    """Minimal gated unit, written out: the state stays in float32."""

    def __init__(self, d_in, d):
        super().__init__()
        self.f = nn.Linear(d_in + d, d)
        self.c = nn.Linear(d_in + d, d)

    def forward(self, x, h):
        z = torch.sigmoid(self.f(torch.cat([x, h], 1)).float())
        n = torch.tanh(self.c(torch.cat([x, z * h], 1)).float())
        return (1 - z) * h + z * n


class SeqVAE(nn.Module):
    def __init__(self, d_in=3, d=48, latent=6, length=12):
        super().__init__()
        self.d = d
        self.enc = Cell(d_in, d)
        self.to_mu, self.to_lv = nn.Linear(d, latent), nn.Linear(d, latent)
        self.dec = nn.Sequential(nn.Linear(latent, 2 * d), nn.GELU(), nn.Linear(2 * d, length * d_in))

    def forward(self, x):
        h = x.new_zeros(x.size(0), self.d)
        for t in range(x.size(1)):
            h = self.enc(x[:, t], h)
        mu, lv = self.to_mu(h).float(), self.to_lv(h).float().clamp(-8, 8)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * lv)
        return self.dec(z).view(x.shape), mu, lv


def curves(n, length, gen):
    t = torch.arange(length).float()[None, :, None]
    w = 0.2 + 0.4 * torch.rand(n, 1, 1, generator=gen)
    ph = torch.tensor([0.0, 1.0, 2.0])
    amp = 0.5 + torch.rand(n, 1, 1, generator=gen)
    return amp * torch.sin(w * t + ph)


def beta_at(step, start, ramp):
    return min(1.0, max(0.0, (step - start) / ramp))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--accum", type=int, default=8)
    ap.add_argument("--steps", type=int, default=90, help="optimizer steps")
    ap.add_argument("--beta-start", type=int, default=25)
    ap.add_argument("--beta-ramp", type=int, default=30)
    ap.add_argument("--beta", type=float, default=0.3)
    ap.add_argument("--lr", type=float, default=1e-2)
    args = ap.parse_args()
    torch.manual_seed(10)
    torch.set_num_threads(1)
    gen = torch.Generator().manual_seed(10)
    data = curves(1024, 12, gen)
    model = SeqVAE()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.LambdaLR(
        opt, lambda s: min(1.0, (s + 1) / 5) * 0.5 * (1.05 + math.cos(math.pi * min(1, s / args.steps))))
    scaler = torch.amp.GradScaler("cpu")
    loss_sum = rec_sum = kl_sum = 0.0
    for micro in range(args.steps * args.accum):
        step = micro // args.accum
        x = data[torch.randint(0, len(data), (16,), generator=gen)]
        with torch.autocast("cpu", dtype=torch.float16):
            y, mu, lv = model(x)
        rec = 20 * F.mse_loss(y.float(), x)
        kl = 0.5 * (mu.square() + lv.exp() - 1 - lv)
        kl = kl.mean(0).clamp(min=0.05).sum()
        loss = rec + beta_at(step, args.beta_start, args.beta_ramp) * args.beta * kl
        scaler.scale(loss / args.accum).backward()
        loss_sum, rec_sum, kl_sum = loss_sum + loss.item(), rec_sum + rec.item(), kl_sum + kl.item()
        if (micro + 1) % args.accum:
            continue
        scaler.unscale_(opt)
        norm = nn.utils.clip_grad_norm_(model.parameters(), 20.0)
        before = scaler.get_scale()
        scaler.step(opt)
        scaler.update()
        if scaler.get_scale() >= before:
            sched.step()
        opt.zero_grad()
        if step % 5 == 0 or step == args.steps - 1:
            n = args.accum
            print(f"step {step:3d} loss {loss_sum / n:.3f} rec {rec_sum / n:.3f} kl {kl_sum / n:.2f} "
                  f"norm {norm.item():.2f} scale {scaler.get_scale():g}")
        loss_sum = rec_sum = kl_sum = 0.0


if __name__ == "__main__":
    main()
