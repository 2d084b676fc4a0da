"""Denoise low-amplitude sensor images with a residual CNN (fp16)."""
import argparse
import math

import torch
from torch import nn


class ResidualDenoiser(nn.Module):
    def __init__(self, ch=12, depth=3, sigma=0.01):
        super().__init__()
        layers = [nn.Conv2d(1, ch, 3, padding=1), nn.ReLU()]
        for _ in range(depth - 2):
            layers += [nn.Conv2d(ch, ch, 3, padding=1), nn.ReLU()]
        layers += [nn.Conv2d(ch, 1, 3, padding=1)]
        self.net = nn.Sequential(*layers)
        self.sigma = sigma

    def forward(self, x):
        return self.net(x / self.sigma).float() * self.sigma


class SensorImages:
    """Smooth fields with fixed-pattern column noise; reflectance units of a few percent."""

    def __init__(self, size=48, amplitude=0.05, noise=0.01, seed=0):
        self.g = torch.Generator().manual_seed(seed)
        self.size, self.amplitude, self.noise = size, amplitude, noise

    def batch(self, n):
        axis = torch.linspace(0, 2 * math.pi, self.size)
        yy, xx = torch.meshgrid(axis, axis, indexing="ij")
        a = 2 * torch.rand(n, 2, 1, 1, generator=self.g)
        ph = 6 * torch.rand(n, 1, 1, generator=self.g)
        clean = self.amplitude * torch.sin(a[:, 0] * yy + a[:, 1] * xx + ph)
        stripes = self.noise * torch.randn(n, 1, self.size, generator=self.g)
        return (clean + stripes)[:, None], clean[:, None]


def psnr(pred, clean, peak=0.1):
    return 10 * math.log10(peak ** 2 / nn.functional.mse_loss(pred, clean).item())


def build_scaler(args):
    return torch.amp.GradScaler("cpu", init_scale=2.0 ** 16, enabled=args.device == "cuda")


def train(args):
    torch.manual_seed(args.seed)
    data, held = SensorImages(seed=1), SensorImages(seed=2)
    net = ResidualDenoiser()
    opt = torch.optim.Adam(net.parameters(), lr=args.lr)
    scaler = build_scaler(args)
    noisy_v, clean_v = held.batch(16)
    print(f"input psnr {psnr(noisy_v, clean_v):.2f} dB, device {args.device}, "
          f"{sum(p.numel() for p in net.parameters())} parameters")
    for step in range(args.steps):
        noisy, clean = data.batch(args.batch)
        with torch.autocast(args.device, dtype=torch.float16):
            residual = net(noisy)
        loss = nn.functional.mse_loss(noisy - residual, clean)
        opt.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        if step % 10 == 0 or step == args.steps - 1:
            with torch.no_grad():
                quality = psnr(noisy_v - net(noisy_v), clean_v)
            print(f"step {step:4d} loss {loss.item():.3e} psnr {quality:.2f} dB")
    return net


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    p.add_argument("--steps", type=int, default=80)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--seed", type=int, default=0)
    train(p.parse_args())
