"""Fits a flat-land radiance field to rays through a disc."""
import argparse

import torch
from torch.utils.data import DataLoader, TensorDataset

from render import Field, Renderer


def disc_rays(n, seed, radius=0.4):
    g = torch.Generator().manual_seed(seed)
    y = torch.rand(n, generator=g) * 2 - 1
    origin = torch.stack([torch.full((n,), -1.0), y], -1)
    direction = torch.tensor([1.0, 0.0]).expand(n, 2).clone()
    hit = y.abs() < radius
    half = (radius ** 2 - y ** 2).clamp(min=0).sqrt()
    depth = torch.where(hit, 1.0 - half, torch.full_like(y, 2.0))
    color = torch.where(hit[:, None], torch.stack([0.9 - y.abs(), 0.5 + y, torch.full_like(y, 0.3)], -1),
                        torch.zeros(n, 3))
    return TensorDataset(origin, direction, color, depth, hit.float())


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=12)
    p.add_argument("--rays", type=int, default=256)
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--depth-weight", type=float, default=0.1)
    p.add_argument("--empty-weight", type=float, default=0.2)
    return p.parse_args()


def main():
    args = parse()
    torch.manual_seed(1)
    loader = DataLoader(disc_rays(4096, 5), args.rays, shuffle=True)
    model = Renderer(Field())
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)

    for epoch in range(args.epochs):
        sums = torch.zeros(3)
        for origin, direction, color, depth, hit in loader:
            opt.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.float16):
                pred, d, acc = model(origin, direction)
                photo = (pred.float() - color).square().mean()
                geo = ((d - depth).abs() * hit).mean()
                empty = (acc.float() * (1 - hit)).mean()
                loss = photo + args.depth_weight * geo + args.empty_weight * empty
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            sums += torch.stack([photo.detach(), geo.detach(), empty.detach()])
        sched.step()
        photo, geo, empty = (sums / len(loader)).tolist()
        print(f"{epoch:3d}  photo {photo:.5f}  depth {geo:.5f}  empty {empty:.5f}  scale {scaler.get_scale():g}")


if __name__ == "__main__":
    main()
