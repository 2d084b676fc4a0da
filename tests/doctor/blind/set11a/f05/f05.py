"""Unsupervised deformable registration of 2D slices (VoxelMorph style)."""
import argparse
import logging

import torch
import torch.nn as nn
import torch.nn.functional as F

logger = logging.getLogger("reg")


class Warp(nn.Module):
    def __init__(self, size):
        super().__init__()
        theta = torch.eye(2, 3)[None]
        self.register_buffer("identity", F.affine_grid(theta, (1, 1, size, size), align_corners=True))

    def forward(self, img, flow):
        grid = self.identity + flow.permute(0, 2, 3, 1)
        return F.grid_sample(img, grid, align_corners=True, padding_mode="zeros")


class RegNet(nn.Module):
    def __init__(self, size, ch=12):
        super().__init__()
        self.enc = nn.Sequential(
            nn.Conv2d(2, ch, 3, padding=1), nn.LeakyReLU(0.2),
            nn.Conv2d(ch, ch, 3, stride=2, padding=1), nn.LeakyReLU(0.2),
            nn.Conv2d(ch, ch, 3, padding=1), nn.LeakyReLU(0.2),
        )
        self.flow = nn.Conv2d(ch, 2, 3, padding=1)
        nn.init.zeros_(self.flow.weight)
        nn.init.zeros_(self.flow.bias)
        self.warp = Warp(size)

    def forward(self, moving, fixed):
        h = self.enc(torch.cat([moving, fixed], dim=1))
        flow = F.interpolate(self.flow(h).float(), scale_factor=2, mode="bilinear", align_corners=True)
        return self.warp(moving, flow), flow


def blobs(n, size, g):
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, size), torch.linspace(-1, 1, size), indexing="ij")
    c = 0.5 * (torch.rand(n, 2, generator=g) - 0.5)
    r = 0.25 + 0.15 * torch.rand(n, 1, 1, generator=g)
    d = (yy - c[:, 0, None, None]) ** 2 + (xx - c[:, 1, None, None]) ** 2
    return torch.exp(-d / (2 * r ** 2))[:, None]


def displacement_penalty(flow):
    magnitude = flow.pow(2).sum(dim=1).sqrt()
    return magnitude.mean()


def smoothness(flow):
    dy = flow[:, :, 1:] - flow[:, :, :-1]
    dx = flow[:, :, :, 1:] - flow[:, :, :, :-1]
    return dy.pow(2).mean() + dx.pow(2).mean()


def fit(opts):
    torch.manual_seed(opts.seed)
    g = torch.Generator().manual_seed(opts.seed)
    net = RegNet(opts.size)
    optim = torch.optim.Adam(net.parameters(), lr=opts.lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 14)
    for step in range(1, opts.steps + 1):
        moving, fixed = blobs(opts.batch, opts.size, g), blobs(opts.batch, opts.size, g)
        with torch.autocast("cpu", dtype=torch.float16):
            warped, flow = net(moving, fixed)
        sim = F.mse_loss(warped.float(), fixed)
        loss = sim + opts.w_mag * displacement_penalty(flow) + opts.w_smooth * smoothness(flow)
        optim.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(optim)
        scaler.update()
        if step % 10 == 0 or step == 1:
            logger.info("step %3d loss %.5f sim %.5f |flow| %.4f scale %g", step, loss.item(), sim.item(), flow.abs().mean().item(), scaler.get_scale())


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=24)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--w-mag", type=float, default=0.01)
    parser.add_argument("--w-smooth", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=7)
    fit(parser.parse_args())
