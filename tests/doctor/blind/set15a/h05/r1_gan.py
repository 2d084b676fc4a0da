"""GAN with lazy R1 regularisation and one scaler, after the recipe in the AMP examples."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--iters", type=int, default=96)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--r1-gamma", type=float, default=2.0)
    p.add_argument("--r1-every", type=int, default=4)
    p.add_argument("--nz", type=int, default=8)
    return p.parse_args()


class Generator(nn.Module):
    def __init__(self, nz, width=64, out=100):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(nz, width), nn.Linear(width, width), nn.Linear(width, out)

    def forward(self, z):
        z = z * (z.square().mean(1, keepdim=True) + 1e-6).rsqrt()
        h = F.silu(self.a(z))
        return torch.tanh(self.c(F.silu(self.b(h))))


class Discriminator(nn.Module):
    def __init__(self, width=64, inp=100):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(inp, width), nn.Linear(width, width), nn.Linear(width, 1)

    def forward(self, x):
        h = F.silu(self.a(x))
        return self.c(F.silu(self.b(h))).squeeze(1)


def reals(n, s=10):
    t = torch.arange(s).float()
    k = torch.randint(1, s - 3, (n, 1))
    band = ((t[None] >= k) & (t[None] < k + 3)).float() * 2 - 1
    flip = torch.rand(n, 1, 1) < 0.5
    img = band[:, :, None].expand(n, s, s)
    return torch.where(flip, img, img.transpose(1, 2)).reshape(n, -1) + 0.05 * torch.randn(n, s * s)


def r1_penalty(D, scaler, x):
    x = x.detach().requires_grad_(True)
    with torch.autocast("cpu", dtype=torch.float16):
        out = D(x).float().sum()
    scaled = torch.autograd.grad(scaler.scale(out), x, create_graph=True)[0]
    inv = 1.0 / scaler.get_scale()
    grads = scaled * inv  # true gradients, outside of autocast
    with torch.autocast("cpu", dtype=torch.float16):
        return grads.float().square().sum(1).mean()


def main():
    args = parse()
    torch.manual_seed(6)
    G, D = Generator(args.nz), Discriminator()
    og = torch.optim.Adam(G.parameters(), lr=1e-3, betas=(0.0, 0.99))
    od = torch.optim.Adam(D.parameters(), lr=1e-3, betas=(0.0, 0.99))
    scaler = torch.amp.GradScaler("cpu")  # 65536: the penalty needs less, found in the first steps
    r1 = torch.zeros(())
    for it in range(args.iters):
        x = reals(args.batch)
        with torch.autocast("cpu", dtype=torch.float16):
            fake = G(torch.randn(args.batch, args.nz)).detach()
            d_loss = F.softplus(D(fake).float()).mean() + F.softplus(-D(x).float()).mean()
        if it % args.r1_every == 0:
            r1 = r1_penalty(D, scaler, x)
            d_loss = d_loss + 0.5 * args.r1_gamma * args.r1_every * r1
        od.zero_grad()
        scaler.scale(d_loss).backward()
        scaler.step(od)

        with torch.autocast("cpu", dtype=torch.float16):
            g_loss = F.softplus(-D(G(torch.randn(args.batch, args.nz))).float()).mean()
        og.zero_grad()
        scaler.scale(g_loss).backward()
        scaler.step(og)
        scaler.update()  # once for both
        if it % 8 == 0:
            print(f"{it:3d} D {d_loss.item():.4f} R1 {r1.item():.4f} G {g_loss.item():.4f} scale {scaler.get_scale():g}")


if __name__ == "__main__":
    main()
