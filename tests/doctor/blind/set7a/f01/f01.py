"""Point-cloud shape classifier (deep sets) in float16."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=48)
    p.add_argument("--lr", type=float, default=4e-3)
    p.add_argument("--dim", type=int, default=48)
    p.add_argument("--seed", type=int, default=7)
    return p.parse_args()


def sample_shape(kind, n, gen):
    u = torch.rand(n, 3, generator=gen) * 2 - 1
    if kind == 0:
        pts = F.normalize(u, dim=1)
    elif kind == 1:
        face = torch.randint(0, 3, (n,), generator=gen)
        pts = u.clone()
        pts[torch.arange(n), face] = torch.sign(pts[torch.arange(n), face])
    else:
        ang = u[:, 0] * 3.14159
        pts = torch.stack([0.6 * torch.cos(ang), 0.6 * torch.sin(ang), u[:, 1] * 1.4], 1)
    return pts * 200.0  # millimetres


class ShapeStream:
    """Scans come from two sensors: a coarse one and a dense one."""

    def __init__(self, seed, batch=8):
        self.gen = torch.Generator().manual_seed(seed)
        self.batch = batch

    def __iter__(self):
        step = 0
        while True:
            n = 4096 if step > 24 and step % 2 == 1 else 128
            y = torch.randint(0, 3, (self.batch,), generator=self.gen)
            x = torch.stack([sample_shape(int(k), n, self.gen) for k in y])
            yield x, y
            step += 1


class PointEncoder(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(3, dim), nn.ReLU(), nn.Linear(dim, dim), nn.ReLU())

    def forward(self, pts):
        h = self.mlp(pts)
        total = h.sum(dim=1)
        return total / pts.shape[1]


class ShapeNet(nn.Module):
    def __init__(self, dim, classes=3):
        super().__init__()
        self.enc = PointEncoder(dim)
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, classes))

    def forward(self, pts):
        return self.head(self.enc(pts))


def main():
    args = parse()
    torch.manual_seed(args.seed)
    net = ShapeNet(args.dim)
    opt = torch.optim.AdamW(net.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for step, (pts, label) in enumerate(ShapeStream(args.seed)):
        if step >= args.steps:
            break
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            logits = net(pts)
            loss = F.cross_entropy(logits.float(), label)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        if step % 5 == 0 or pts.shape[1] > 1000:
            print(f"step {step:3d} points {pts.shape[1]:5d} loss {loss.item():.4f} scale {scaler.get_scale():g}")


if __name__ == "__main__":
    main()
