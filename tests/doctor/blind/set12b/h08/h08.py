"""VAE on binary rows with a KL ramp and a one-cycle rate, bf16."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class VAE(nn.Module):
    def __init__(self, n=24, h=48, z=4):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(n, h), nn.ReLU(), nn.Linear(h, 2 * z))
        self.dec = nn.Sequential(nn.Linear(z, h), nn.ReLU(), nn.Linear(h, n))

    def forward(self, x):
        mu, logvar = self.enc(x).float().chunk(2, -1)
        with torch.autocast("cpu", enabled=False):
            kl = 0.5 * (logvar.exp() + mu.square() - 1 - logvar).sum(-1)
            z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.dec(z), kl


def binary_rows(n, proto):
    k = torch.randint(0, len(proto), (n,))
    flip = (torch.rand(n, proto.size(1)) < 0.03).float()
    return (proto[k] - flip).abs()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=160)
    ap.add_argument("--free", type=float, default=0.5)
    args = ap.parse_args()
    torch.manual_seed(7)
    proto = (torch.rand(6, 24) > 0.5).float()
    model = VAE()
    opt = torch.optim.Adam(model.parameters(), lr=1e-4)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=2e-2, total_steps=args.steps, pct_start=0.3)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    for step in range(args.steps):
        x = binary_rows(64, proto)
        beta = min(1.0, step / 100)
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits, kl = model(x)
        rec = F.binary_cross_entropy_with_logits(logits.float(), x, reduction="none").sum(-1).mean()
        total = rec + beta * kl.mean().clamp(min=args.free)
        scaler.scale(total).backward()
        scaler.step(opt)
        scaler.update()
        sched.step()
        if step % 20 == 0:
            print(f"step {step} total {total.item():.3f} rec {rec.item():.3f} kl {kl.mean().item():.3f} "
                  f"rate {sched.get_last_lr()[0]:.2e}")
    model.eval()
    with torch.no_grad():
        x = binary_rows(256, proto)
        wrong = ((model(x)[0] > 0).float() != x).float().mean().item()
    print("bits wrong", round(wrong, 4))


if __name__ == "__main__":
    main()
