"""Sparse-view radiance field in 2-D with Fourier features."""
import argparse
import math

import torch
import torch.nn as nn

from lookahead import Lookahead


class FieldMLP(nn.Module):
    def __init__(self, freqs=5, width=64):
        super().__init__()
        self.register_buffer("bands", 2.0 ** torch.arange(freqs) * math.pi)
        self.layers = nn.Sequential(
            nn.Linear(4 * freqs, width), nn.ReLU(),
            nn.Linear(width, width), nn.ReLU(),
            nn.Linear(width, 4),
        )

    def forward(self, xy):
        arg = (xy[..., None] * self.bands).flatten(-2)
        out = self.layers(torch.cat([arg.sin(), arg.cos()], -1))
        return torch.sigmoid(out[..., :3]), nn.functional.softplus(out[..., 3])


def render(field, origin, direction, samples):
    t = torch.linspace(0.05, 1.4, samples)
    pts = origin[:, None] + direction[:, None] * t[:, None]
    color, sigma = field(pts)
    delta = 1.35 / samples
    alpha = 1 - torch.exp(-sigma.float() * 10 * delta)
    trans = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-6], 1), 1)[:, :-1]
    weight = alpha * trans
    return (weight[..., None] * color.float()).sum(1)


def target_color(origin, direction, samples=48):
    t = torch.linspace(0.05, 1.4, samples)
    pts = origin[:, None] + direction[:, None] * t[:, None]
    centre = torch.tensor([[0.5, 0.2], [0.3, 0.7], [0.75, 0.7]])
    inside = (pts[:, :, None] - centre).norm(dim=-1) < 0.16
    hit = inside.any(1)
    first = torch.where(inside, t[None, :, None], torch.tensor(9.0)).amin(1)
    nearest = first.argmin(1)
    return torch.eye(3)[nearest] * hit.any(1, keepdim=True)


def rays(n, gen):
    phi = 2 * math.pi * torch.rand(n, generator=gen)
    origin = 0.5 + 0.7 * torch.stack([phi.cos(), phi.sin()], -1)
    aim = 0.25 + 0.5 * torch.rand(n, 2, generator=gen)
    return origin, nn.functional.normalize(aim - origin, dim=-1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--iters", type=int, default=400)
    ap.add_argument("--rays", type=int, default=128)
    ap.add_argument("--samples", type=int, default=24)
    ap.add_argument("--lr", type=float, default=0.3)
    ap.add_argument("--clip", type=float, default=1.0)
    args = ap.parse_args()
    torch.manual_seed(1)
    gen = torch.Generator().manual_seed(1)

    field = FieldMLP()
    inner = torch.optim.SGD(field.parameters(), lr=args.lr, momentum=0.9)
    optimizer = Lookahead(inner, k=5, alpha=0.6)
    scheduler = torch.optim.lr_scheduler.StepLR(inner, 150, 0.5)
    scaler = torch.amp.GradScaler("cpu")

    mean = 0.0
    for it in range(1, args.iters + 1):
        origin, direction = rays(args.rays, gen)
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            rgb = render(field, origin, direction, args.samples)
        loss = (rgb - target_color(origin, direction)).pow(2).mean()
        scaler.scale(loss).backward()
        scaler.unscale_(inner)
        norm = nn.utils.clip_grad_norm_(field.parameters(), args.clip)
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        mean += loss.item()
        if it % 50 == 0:
            psnr = -10 * math.log10(mean / 50)
            print(f"iter {it:4d} psnr {psnr:.2f} norm {norm.item():.4f} scale {scaler.get_scale():g}")
            mean = 0.0


if __name__ == "__main__":
    main()
