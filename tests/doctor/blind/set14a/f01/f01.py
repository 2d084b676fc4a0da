"""Generative latent optimization (GLO) with a small StyleGAN2-like decoder."""
import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

p = argparse.ArgumentParser()
p.add_argument("--iters", type=int, default=100)
p.add_argument("--batch", type=int, default=8)
p.add_argument("--lr", type=float, default=5e-3)
p.add_argument("--wdim", type=int, default=128)
args = p.parse_args()
torch.manual_seed(7)


class Affine(nn.Module):
    def __init__(self, wdim, ch):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(ch, wdim))
        self.bias = nn.Parameter(torch.ones(ch))

    def forward(self, w):
        return F.linear(w, self.weight, self.bias)


class ModConv(nn.Module):
    def __init__(self, cin, cout, wdim, demodulate=True):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(cout, cin))
        self.bias = nn.Parameter(torch.zeros(cout))
        self.affine = Affine(wdim, cin)
        self.demodulate = demodulate

    def forward(self, x, w):
        s = self.affine(w)
        weight = self.weight.to(s.dtype)[None] * s[:, None, :]
        if self.demodulate:
            d = (weight.square().sum(dim=2) + 1e-4).rsqrt()
            weight = weight * d[:, :, None]
        else:
            weight = weight / math.sqrt(weight.shape[2] * w.shape[1])
        b, c, h, wd = x.shape
        y = torch.bmm(weight, x.reshape(b, c, h * wd)).reshape(b, -1, h, wd)
        return y + self.bias.to(y.dtype)[None, :, None, None]


class Decoder(nn.Module):
    def __init__(self, wdim, ch=896):
        super().__init__()
        self.const = nn.Parameter(torch.randn(1, ch, 4, 4))
        self.c1 = ModConv(ch, 64, wdim)
        self.mix1 = nn.Conv2d(64, 16, 3, padding=1)
        self.mix2 = nn.Conv2d(16, 16, 3, padding=1)
        self.rgb = nn.Conv2d(16, 3, 1)

    def forward(self, w):
        x = self.const.expand(w.shape[0], -1, -1, -1)
        x = F.leaky_relu(self.c1(x, w), 0.2)
        x = F.leaky_relu(self.mix1(F.interpolate(x, scale_factor=2.0)), 0.2)
        x = F.leaky_relu(self.mix2(F.interpolate(x, scale_factor=2.0)), 0.2)
        return self.rgb(x)


def make_images(n):
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, 16), torch.linspace(-1, 1, 16), indexing="ij")
    ang = torch.rand(n, 1, 1) * 6.283
    ramp = torch.tanh(2.5 * (torch.cos(ang) * xx + torch.sin(ang) * yy))
    color = torch.rand(n, 3, 1, 1) * 2 - 1
    return color * ramp[:, None]


N = 32
images = make_images(N)
codes = nn.Embedding(N, args.wdim)
net = Decoder(args.wdim)
opt = torch.optim.Adam([{"params": net.parameters(), "lr": args.lr},
                        {"params": codes.parameters(), "lr": args.lr * 3}], betas=(0.0, 0.99))
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)

running = None
for it in range(args.iters):
    idx = torch.randint(0, N, (args.batch,))
    with torch.autocast("cpu", dtype=torch.float16):
        out = net(codes(idx))
        loss = F.mse_loss(out.float(), images[idx])
    opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
    running = loss.item() if running is None else 0.9 * running + 0.1 * loss.item()
    if it % 20 == 0 or it == args.iters - 1:
        print(f"it {it:4d}  loss {running:.4f}  scale {scaler.get_scale():.0f}")

with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
    rec = net(codes(torch.arange(N)))
    print("final reconstruction psnr %.2f dB" % (10 * torch.log10(4 / F.mse_loss(rec.float(), images)).item()))
