"""Adversarial generation of points on two moons; the two players take turns as generators (coroutines)."""
import argparse
import math
from collections import namedtuple

import torch
import torch.nn as nn
import torch.nn.functional as F

Player = namedtuple("Player", "net opt scaler")


def moons(n, g):
    t = math.pi * torch.rand(n, generator=g)
    top = torch.rand(n, generator=g) < 0.5
    x = torch.where(top, t.cos(), 1 - t.cos())
    y = torch.where(top, t.sin(), 0.5 - t.sin())
    return torch.stack([x, y], 1) + 0.05 * torch.randn(n, 2, generator=g)


def player(widths, lr, last=None):
    layers = []
    for a, b in zip(widths, widths[1:]):
        layers += [nn.Linear(a, b), nn.LeakyReLU(0.2)]
    net = nn.Sequential(*layers[:-1])
    return Player(net, torch.optim.Adam(net.parameters(), lr=lr, betas=(0.5, 0.99)), torch.amp.GradScaler("cpu"))


def update(who, loss):
    who.scaler.scale(loss).backward()
    who.scaler.step(who.opt)
    who.scaler.update()


def critic(gen, dis, r1):
    loss = None
    while True:
        real, noise = yield loss
        dis.opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            with torch.no_grad():
                fake = gen.net(noise)
            loss = F.softplus(dis.net(fake).float()).mean() + F.softplus(-dis.net(real).float()).mean()
        if r1:
            sample = real.clone().requires_grad_()
            slope, = torch.autograd.grad(dis.net(sample).sum(), sample, create_graph=True)
            loss = loss + 0.5 * r1 * slope.square().sum(1).mean()
        update(dis, loss)
        loss = loss.item()


def artist(gen, dis):
    loss = None
    while True:
        noise = yield loss
        gen.opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.softplus(-dis.net(gen.net(noise)).float()).mean()
        update(gen, loss)
        dis.opt.zero_grad()
        loss = loss.item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=150)
    ap.add_argument("--r1", type=float, default=0.1)
    args = ap.parse_args()
    torch.manual_seed(110)
    g = torch.Generator().manual_seed(111)
    gen, dis = player([4, 32, 32, 2], 2e-3), player([2, 32, 32, 1], 2e-3)
    turn_d, turn_g = critic(gen, dis, args.r1), artist(gen, dis)
    next(turn_d), next(turn_g)
    for step in range(1, args.steps + 1):
        d = turn_d.send((moons(64, g), torch.randn(64, 4, generator=g)))
        q = turn_g.send(torch.randn(64, 4, generator=g))
        if step % 25 == 0:
            with torch.inference_mode():
                points = gen.net(torch.randn(256, 4, generator=g))
            near = torch.cdist(points, moons(256, g)).min(1).values.mean()
            print(f"{step:3d} critic {d:.4f} artist {q:.4f} distance {near:.4f} scales {dis.scaler.get_scale():g} {gen.scaler.get_scale():g}")


if __name__ == "__main__":
    main()
