"""Fit a coordinate network to a truncated signed distance field (metres)."""
import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class FourierFeatures(nn.Module):
    def __init__(self, n=24, sigma=1.5):
        super().__init__()
        self.register_buffer("B", torch.randn(3, n) * sigma)

    def forward(self, x):
        p = 2 * math.pi * (x @ self.B)
        return torch.cat([p.sin(), p.cos()], -1)


class TSDFNet(nn.Module):
    def __init__(self, width=64, depth=3):
        super().__init__()
        self.enc = FourierFeatures()
        dims = [48] + [width] * depth
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in zip(dims, dims[1:]))
        self.out = nn.Linear(width, 1)
        # distances are a few millimetres: start with small outputs
        nn.init.normal_(self.out.weight, std=1e-3)
        nn.init.zeros_(self.out.bias)

    def forward(self, x):
        h = self.enc(x)
        for layer in self.hidden:
            h = F.softplus(layer(h), beta=20)
        return self.out(h).squeeze(-1)


def scene(x, trunc):
    """two spheres and a floor inside a half-metre cube"""
    a = (x - torch.tensor([0.15, 0.2, 0.25])).norm(dim=-1) - 0.1
    b = (x - torch.tensor([0.35, 0.3, 0.2])).norm(dim=-1) - 0.08
    floor = x[:, 2] - 0.05
    return torch.stack([a, b, floor]).min(0).values.clamp(-trunc, trunc)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--points", type=int, default=16384)
    ap.add_argument("--trunc", type=float, default=0.004)
    ap.add_argument("--iters", type=int, default=56)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--amp", action="store_true")
    args = ap.parse_args()

    torch.manual_seed(13)
    dev = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = TSDFNet().to(dev)
    opt = torch.optim.Adam(net.parameters(), lr=args.lr, eps=1e-12)
    scaler = torch.amp.GradScaler(dev.type, enabled=args.amp and torch.cuda.is_available())
    start = net.hidden[0].weight.detach().clone()

    for it in range(args.iters):
        x = torch.rand(args.points, 3, device=dev) * 0.5
        target = scene(x, args.trunc)
        opt.zero_grad(set_to_none=True)
        with torch.autocast(dev.type, dtype=torch.float16, enabled=args.amp):
            pred = net(x)
            loss = F.mse_loss(pred, target)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        if it % 8 == 0:
            sign = ((pred > 0) == (target > 0)).float().mean().item()
            moved = (net.hidden[0].weight.detach() - start).abs().max().item()
            print(f"it {it:3d} rmse {1e3 * loss.item() ** 0.5:.3f} mm  sign ok {sign:.3f}  first layer moved {moved:.2e}")


if __name__ == "__main__":
    main()
